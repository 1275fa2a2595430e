"""Five defects that random searches did not find when they existed. Options of the debug kernel bring them back (kern/core/planted.h), so
that leakfuzz and stress can show what they find. Here each defect shows itself at once with its option, and not without it."""
import re

import pytest

from guest import ctl_in, guest

pytestmark = pytest.mark.long  # two of the defects are races, which need luck, or several attempts on a busy host


def mended(script, bug, *options, lost=()):
    """Runs the script without the bug and with it. With the bug it runs until it fails, eight times at most."""
    again = f"for i in 1 2 3 4 5 6 7 8; do {script} || exit; done"
    return [guest(again if bug else script, "--variant", "debug", *options, "--cmdline", bug and f"break={bug}", log=False, lost=lost if bug else ()) for bug in ("", bug)]


@pytest.mark.cpus(2)
def test_a_walk_that_calls_itself():
    clean, broken = mended("proctest mended walk", "stale_walk")
    assert clean.status == 0, clean
    assert broken.status == 134 and "kernel stack overflow" in broken.stderr, broken


def test_a_timer_that_stops_the_machine():
    clean, broken = mended("proctest mended timer", "timer_storm", "--timeout", "20")
    assert clean.status == 0, clean
    assert broken.status == 124 and "timers_run" in broken.stderr, broken


def test_a_lock_that_outlives_its_process():
    clean, broken = mended("filetest /tmp", "dead_lock")
    assert clean.status == 0, clean
    assert broken.status == 1 and "not ok" in broken.stdout, broken


@pytest.mark.cpus(2)
def test_a_race_between_a_close_and_an_open_in_dev_fd():
    clean, broken = mended("proctest mended descriptor", "devfd_race", lost=["bytes_16"])
    assert clean.status == 0 and int(re.search(r"opened (\d+) times", clean.stdout)[1]) > 100, clean
    assert broken.status == 1 and "Text file busy" in broken.stderr, broken


@pytest.mark.cpus(2)
@pytest.mark.parametrize("bug, cpus", (("", 2), ("late_flags", 2), ("late_flags", 1)))
def test_a_cpu_that_does_not_trace_references(bug, cpus):
    result = guest("""for round in 1 2 3 4 5; do for i in 1 2 3 4 5 6 7 8; do ls / | cat > /dev/null & done; wait; done; echo settle > #mem/kmemtrace/ctl
cat #mem/kmemtrace/ctl; cat #mem/kmemstat""", "--variant", "debug", "--smp", str(cpus), "--cmdline", f"trace=ref.chan break={bug}")
    [trace] = ctl_in(result.stdout)[1]
    [live] = re.findall(r"^ref\.chan +(?:\S+ +){4}(\d+)", result.stdout, re.M)
    is_right = (trace.counters["unmatched"], trace.counters["live"]) == (0, int(live))
    assert is_right == (bug == "" or cpus == 1), result
