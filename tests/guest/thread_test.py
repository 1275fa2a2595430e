"""Threads as programs use them (user/bin/threadtest)."""
import os
import pathlib
import re
import subprocess

import pytest

from guest import BUILD, guest

TOOLCHAIN = pathlib.Path(os.environ.get("TOOLCHAIN", BUILD / "toolchain"))


@pytest.mark.parametrize("cpus", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_every_check_of_threadtest(cpus):
    result = guest("exec threadtest", "--smp", str(cpus), "--timeout", "600")
    assert "not ok" not in result.stdout
    assert result.status == 0, result
    assert re.search(r"(?m)^1\.\.\d+$", result.stdout)


@pytest.mark.parametrize("flags", ([], ["-pthread", "-O0", "-Wl,--gc-sections"]), ids=("bare", "pthread"))
def test_what_cxx_has_of_threads(tmp_path, flags):
    source = pathlib.Path(__file__).with_name("threads.cc")
    subprocess.run([TOOLCHAIN / "bin/x86_64-stele-elf-g++", "-std=c++20", "-O2", *flags, "-o", tmp_path / "threads", source], check=True)
    result = guest("exec /host/threads", "--share", tmp_path)
    assert (result.status, result.stdout) == (0, "ok\n")


@pytest.mark.parametrize("cpus", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_nothing_is_lost_under_stress(cpus):
    result = guest("threadstress 6 7 32", "--smp", str(cpus), "--timeout", "900")
    assert result.status == 0, result
    assert re.search(r"(?m)^threadstress: \d+ episodes$", result.stdout)


@pytest.mark.long
@pytest.mark.cpus(4)
def test_nothing_is_lost_under_long_stress():
    result = guest("threadstress 600", "--timeout", "7200")
    assert result.status == 0, result
