"""scripts/check-layers: which file of the kernel may include which header."""
import shutil
import subprocess

import pytest

from guest import ROOT


@pytest.fixture(name="tree")
def copied_tree(tmp_path):
    for folder in ("kern", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc", "node_modules"))
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/check-layers", tmp_path / "scripts")
    return tmp_path


def check(tree):
    run = subprocess.run([tree / "scripts/check-layers"], capture_output=True, text=True, check=False)
    assert not run.stderr and run.returncode == (1 if run.stdout else 0)
    return run.stdout.splitlines()


def include(tree, path, name):
    file = tree / "kern" / path
    file.write_text(file.read_text(encoding="utf-8") + f'#include "{name}"\n', encoding="utf-8")


def test_the_tree_is_right(tree):
    assert check(tree) == []


@pytest.mark.parametrize(("path", "name", "wrong"), (
    ("intern/sweeper.cc", "sched/task.h", "includes sched/task.h, which is in a layer above it"),
    ("reach/look.cc", "intern/page_pool_impl.h", "includes intern/page_pool_impl.h, which is only for intern"),
    ("trace/dump/text.cc", "trace/record/table_store_impl.h", "includes trace/record/table_store_impl.h, which is only for trace/record"),
    ("proc/exec.cc", "ns/walk_impl.h", "includes ns/walk_impl.h, which is only for ns"),
    ("proc/exec.cc", "src/slab_impl.h", "includes src/slab_impl.h, which is only for src"),
    ("proc/exec.cc", "slab_impl.h", "slab_impl.h is neither a path from kern/ nor a header of the allocator"),
    ("proc/exec.cc", "process_impl.h", "process_impl.h is neither a path from kern/ nor a header of the allocator"),
    ("probe/session.cc", "trace/control/control.h", "probe does not include trace/control/control.h"),
))
def test_an_include_that_breaks_a_rule(tree, path, name, wrong):
    include(tree, path, name)
    [line] = check(tree)
    assert line.startswith(f"kern/{path}:") and line.endswith(f": {wrong}")


@pytest.mark.parametrize(("path", "name"), (
    ("tests/sweep_test.cc", "intern/page_pool_impl.h"), ("bench/pairs.cc", "src/slab_impl.h"), ("src/slab_walk.c", "slab_check_impl.h"),
    ("intern/sweeper.cc", "intern/page_pool_impl.h"), ("proc/exec.cc", "slab.h"), ("proc/exec.cc", "ns/device.h"),
))
def test_an_include_that_breaks_none(tree, path, name):
    include(tree, path, name)
    assert check(tree) == []


def test_a_header_of_one_folder_has_the_name_of_one(tree):
    """A header that no other folder includes any more, or that is new."""
    (tree / "kern/proc/fresh.h").write_text("#pragma once\n")
    include(tree, "proc/exec.cc", "proc/fresh.h")
    assert check(tree) == ["kern/proc/fresh.h: no other folder includes it, so its name is fresh_impl.h"]
    include(tree, "ns/walk.cc", "proc/fresh.h")
    assert check(tree) == []


def test_a_folder_in_no_layer(tree):
    (tree / "kern/attic").mkdir()
    (tree / "kern/attic/old.cc").write_text("")
    assert check(tree) == ["kern/attic/old.cc: is in no layer of scripts/check-layers"]


def test_a_line_of_the_script_without_effect(tree):
    """What has moved away leaves no line behind, and an exception that nothing needs is no exception."""
    script = tree / "scripts/check-layers"
    text = script.read_text(encoding="utf-8")
    text = text.replace('    ["intern"],\n', '    ["intern", "store"],\n')
    text = text.replace("EXCEPTIONS = [\n", 'EXCEPTIONS = [\n    ("core/log.cc", ["sched"], "no reason"),\n')
    script.write_text(text, encoding="utf-8")
    assert sorted(check(tree)) == ["scripts/check-layers: nothing needs the exception of core/log.cc for sched",
                                   "scripts/check-layers: there is no kern/store"]
