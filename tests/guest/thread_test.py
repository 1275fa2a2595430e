"""Threads of programs: C++ threads, stress, and what is left when their processes have ended."""
import pathlib
import re
import subprocess

import pytest

from guest import TOOLCHAIN, guest, leaktest


@pytest.mark.cpus(4)
@pytest.mark.parametrize("flags", ([], ["-pthread", "-O0", "-Wl,--gc-sections"]), ids=("bare", "pthread"))
def test_what_cxx_has_of_threads(tmp_path, flags):
    source = pathlib.Path(__file__).with_name("threads.cc")
    subprocess.run([TOOLCHAIN / "bin/x86_64-stele-elf-g++", "-std=c++20", "-O2", *flags, "-o", tmp_path / "threads", source], check=True)
    result = guest("exec /host/threads", "--share", tmp_path)
    assert (result.status, result.stdout) == (0, "ok\n")


@pytest.mark.parametrize("cpus", [pytest.param(1, marks=[pytest.mark.cpus(1), pytest.mark.long]), pytest.param(4, marks=pytest.mark.cpus(4))])
def test_nothing_is_lost_under_stress(cpus):
    result = guest("stress 6 7 4 threads", "--smp", str(cpus), "--timeout", "900")
    assert result.status == 0, result
    assert re.search(r"(?m)^[1-9]\d* activities, 0 failed$", result.stdout)


# Programs in which processes end while their threads are in the kernel, or threads unmap memory that other threads use.
LOADS = {"clonetest": "clonetest", "threadtest": "threadtest",
         "maptest": "mkdir /tmp/folder; maptest /tmp/folder; rm -r /tmp/folder"}


@pytest.mark.long
@pytest.mark.parametrize("cpus", [pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)])
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_leaves_nothing_behind(load, cpus):
    result = leaktest(f"{{ {load}; }} > /dev/null 2>&1", "--runs", "8", "--timeout", "3600")
    assert result.status == 0, result


@pytest.mark.long
@pytest.mark.cpus(4)
@pytest.mark.parametrize("variant", ("debug", "sanitize", "irqoff"))
def test_nothing_is_lost_under_long_stress(variant):
    """Runs stress with threads for ten minutes in each debug build. Standard error must be empty, because the kernel's error reports would be there."""
    result = guest("stress 600 7 4 threads", "--variant", variant, "--timeout", "7200")
    assert result.status == 0 and result.stderr == "", result
