"""The programs of tests/programs that check a part of the system: each passes all its checks."""
import re

import pytest

from guest import guest

ONE = pytest.param(1, marks=pytest.mark.cpus(1))
ONE_LONG = pytest.param(1, marks=[pytest.mark.cpus(1), pytest.mark.long])
FOUR = pytest.param(4, marks=pytest.mark.cpus(4))

# For each program: the script that runs it, and with how many CPUs. /host/folder is an empty folder, and has to be empty at the end.
PROGRAMS = {
    "clonetest": ("clonetest", ONE_LONG, FOUR),  # threads of processes
    "libctest": ("libctest < #null/null", ONE),  # the C library
    "maptest": ("mkdir /tmp/folder; maptest /tmp/folder && maptest /host/folder", ONE, FOUR),  # mapped files
    "proctest": ("proctest", ONE_LONG, FOUR),  # processes
    "sessiontest": ("sessiontest", ONE, FOUR),  # users, terminals and sessions
    "sigtest": ("sigtest", ONE_LONG, FOUR),  # signals, timers, waiting and limits
    "threadtest": ("threadtest", ONE_LONG, FOUR),  # threads of the C library
}
# These programs do not say at their end how many checks they have made.
NOT_COUNTED = ("clonetest", "proctest", "sessiontest", "threadtest")


@pytest.mark.parametrize("program, cpus", [pytest.param(name, *cpus.values, marks=cpus.marks) for name, (_, *counts) in PROGRAMS.items() for cpus in counts])
def test_every_check(program, cpus, tmp_path):
    (tmp_path / "folder").mkdir()
    script = PROGRAMS[program][0]
    result = guest(f"{script} && rmdir /host/folder", "--share", str(tmp_path), "--timeout", "600")
    assert result.status == 0, result
    assert "not ok" not in result.stdout, result
    assert len(re.findall(r"(?m)^1\.\.\d+$", result.stdout)) == (0 if program in NOT_COUNTED else script.count(program)), result
