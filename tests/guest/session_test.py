"""Users, terminals and sessions, as programs meet them (user/bin/sessiontest)."""
import re

import pytest

from console import Console
from guest import guest


@pytest.mark.parametrize("cpus", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_every_check_of_sessiontest(cpus):
    result = guest("exec sessiontest", "--smp", str(cpus))
    assert result.status == 0, result
    assert "not ok" not in result.stdout


def test_a_shell_ends():
    """The console hangs up for the processes that it leaves: running jobs cannot write there any
    more, stopped jobs are ended."""
    with Console() as console:
        assert console.PROMPT in console.read_until(console.PROMPT)
        console.type("(trap '' HUP; while [ -d /proc/$$ ]; do usleep 1000; done; /bin/echo unseen; echo status $? > /tmp/status) &\r")
        console.read_until(console.PROMPT)
        console.type("sleep 1000 & kill -STOP $!; until grep -q 'State:.T' /proc/$!/status; do usleep 1000; done; echo gone\r")
        after = console.read_until("\ngone").partition("\ngone")[2]
        assert console.PROMPT in after or console.PROMPT in console.read_until(console.PROMPT)
        console.type("exit\r")  # there are stopped jobs
        console.read_until(console.PROMPT)
        console.type("exit\r")
        console.read_until(console.PROMPT)
        console.type("while [ ! -s /tmp/status ]; do usleep 1000; done; cat /tmp/status; pidof sleep; echo ready\r")
        said = console.read_until("\nready")
        assert "\nstatus 1\n" in said and "\nready" in said, said
        assert "\nunseen" not in said and not re.search(r"(?m)^\d+$", said), said
