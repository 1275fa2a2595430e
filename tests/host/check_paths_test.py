"""A list that goes by path loses its effect when the files move: make and scripts/check-paths find paths that name nothing."""
import re
import shutil
import subprocess

import pytest

from guest import ROOT
from stele.build import environment


def tracked():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def make_help(tree):
    """Reads all make files, as each goal does. Returns the exit status and standard error."""
    run = subprocess.run(["make", "-s", "help"], cwd=tree, env=environment(), capture_output=True, text=True, check=False)
    return run.returncode, run.stderr


@pytest.fixture(name="tree")
def tree_of_names(tmp_path):
    """The make files, and an empty file for each other file."""
    for name in tracked():
        if not (ROOT / name).is_file():
            continue
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(("Makefile", ".mk", "Kconfig", ".config")) or name.startswith("user/ports/"):
            shutil.copy(ROOT / name, tmp_path / name)
        else:
            (tmp_path / name).touch()
    return tmp_path


def test_make_finds_all_its_paths(tree):
    assert make_help(tree) == (0, "")


@pytest.mark.parametrize("path", (
    "kern/core/panic.cc",  # not instrumented by KASAN
    "kern/trace/record/hooks.cc",  # has flags of its own for its frames
    "kern/proc/user_probe_hit.cc",  # not compiled for coverage
    "kern/probe/session.cc",  # compiled for coverage
    "kern/core/ubsan.cc",  # left out without an option
    "kern/src/slab%.c",  # a pattern, of sources for the host
    "user/libc/once.c",  # compiled with exceptions
))
def test_make_ends_if_a_file_has_moved(tree, path):
    (tree / "elsewhere").mkdir()
    moved = list(tree.glob(path.replace("%", "*")))
    assert moved
    for file in moved:
        file.rename(tree / "elsewhere" / file.name)
    status, error = make_help(tree)
    assert status == 2 and re.search(rf"^\S+:\d+: \*\*\* no file is named {path.replace('%', '%?')}", error), error


def check_paths(tree):
    run = subprocess.run([ROOT / "scripts/check-paths", tree], capture_output=True, text=True, check=False)
    assert not run.stderr and run.returncode == (1 if run.stdout else 0)
    return run.stdout.splitlines()


def test_the_paths_of_scripts_tools_and_documents(tmp_path):
    (tmp_path / "kern/core").mkdir(parents=True)
    (tmp_path / "kern/core/log.cc").touch()
    good = ["see kern/core/log.cc:12.", r're.compile(r"kern/core/log\.cc")', "('kern/core/*', 'kern/core/%')", "kern/core/NAME.cc", "$(BUILD)/kern/lost.cc"]
    bad = ["kern/core/lost.cc", r"kern/core/lost\.cc", "kern/lost/", "kern/core/*.S", "kern/core/x%"]
    (tmp_path / "list.py").write_text("\n".join(good))
    (tmp_path / "doc.md").write_text("\n".join(f"({word})" for word in bad))
    subprocess.run("git init -q && git add .", shell=True, cwd=tmp_path, check=True)
    assert check_paths(tmp_path) == [f"doc.md:{number}: {word} names nothing" for number, word in enumerate(bad, 1)]


def test_the_files_of_check_stacks(tmp_path):
    """The table of pointers goes by the names of files."""
    for folder in ("kern", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc", "node_modules"))
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/check-stacks", tmp_path / "scripts")
    script = f"import runpy; print(runpy.run_path({str(tmp_path / 'scripts/check-stacks')!r})['unnamed']())"

    def unnamed():
        return subprocess.run(["python3", "-c", script], capture_output=True, text=True, check=True).stdout.strip()

    assert unnamed() == "[]"
    (tmp_path / "kern/drivers/dev/keyboard.cc").rename(tmp_path / "kern/drivers/dev/keys.cc")
    assert "POINTERS has the file keyboard.cc, and no file" in unnamed()
