"""scripts/cache, and scripts/toolchain with it: what one source tree built, another tree gets."""
import os
import resource
import subprocess
import time

import pytest

from guest import ROOT, TOOLCHAIN

DAY = 24 * 3600


def cache(*arguments, **options):
    return subprocess.run([ROOT / "scripts/cache", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True, **options)


def folder(path, text):
    """Makes a folder that has one file, in a folder of its own, and returns the folder."""
    (path / "lib").mkdir(parents=True)
    (path / "lib/file").write_text(text)
    return path


def test_get_replaces_the_folder_by_what_was_put(tmp_path):
    assert cache("put", folder(tmp_path / "built", "new"), tmp_path / "cache/name-1").returncode == 0
    old = folder(tmp_path / "tree/sysroot", "old")
    (old / "lib/other").write_text("left from before")
    got = cache("get", tmp_path / "cache/name-1", old)
    assert (got.returncode, got.stdout) == (0, "")
    assert (old / "lib/file").read_text() == "new" and not (old / "lib/other").exists()


def test_get_of_an_absent_entry_leaves_the_folder(tmp_path):
    old = folder(tmp_path / "sysroot", "old")
    got = cache("get", tmp_path / "cache/name-1", old)
    assert (got.returncode, got.stdout) == (1, "")
    assert (old / "lib/file").read_text() == "old"


def test_two_puts_of_one_entry_leave_one_and_no_rest(tmp_path):
    for text in ("first", "second"):
        assert cache("put", folder(tmp_path / text, "same"), tmp_path / "cache/name-1").returncode == 0
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["name-1"]
    assert [file.name for file in (tmp_path / "cache/name-1").iterdir()] == ["lib"]


@pytest.mark.parametrize("trouble", ["file in the way", "full disk"])
def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path, trouble):
    built = folder(tmp_path / "built", "x" * 100_000)
    if trouble == "file in the way":
        (tmp_path / "cache").write_text("")
    limit = None if trouble == "file in the way" else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    put = cache("put", built, tmp_path / "cache/name-1", preexec_fn=limit)
    assert (put.returncode, put.stdout) == (0, "")
    assert not (tmp_path / "cache").is_dir() or not list((tmp_path / "cache").iterdir())


def test_put_removes_what_nobody_got_for_a_month(tmp_path):
    ages = {"unused": 40, "used": 40, "young": 20}
    for name in ages:
        cache("put", folder(tmp_path / name, name), tmp_path / "cache" / name)
    for name, days in ages.items():
        os.utime(tmp_path / "cache" / name, (time.time() - days * DAY,) * 2)
    cache("get", tmp_path / "cache/used", tmp_path / "got")
    cache("put", folder(tmp_path / "new", "new"), tmp_path / "cache/new")
    assert sorted(entry.name for entry in (tmp_path / "cache").iterdir()) == ["new", "used", "young"]


@pytest.mark.parametrize("arguments", [[], ["get", "x"], ["put", "x"], ["drop", "x", "y"]])
def test_usage(arguments):
    done = cache(*arguments)
    assert done.returncode == 2 and done.stdout.startswith("usage: ")


def test_a_second_tree_gets_newlib_and_builds_nothing(tmp_path):
    key = (TOOLCHAIN / "newlib.stamp").read_text().strip()
    folder(tmp_path / f"cache/toolchain/newlib-{key}", "built before")
    done = subprocess.run([ROOT / "scripts/toolchain", "newlib", tmp_path / "second", tmp_path / "cache"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "second/sysroot/newlib/lib/file").read_text() == "built before"
    assert (tmp_path / "second/newlib.stamp").read_text().strip() == key
