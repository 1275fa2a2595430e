"""Under --icount a run repeats exactly, instruction by instruction, even on a busy host."""
import pathlib
import subprocess
import tempfile
import time

import pytest

from guest import ROOT, guest

pytestmark = pytest.mark.icount

GIVE_UP, INTERVAL = 60, 0.05  # seconds

# Runs processes, pipes, memory allocations, and sleeps in which all CPUs idle.
WORK = """
for i in 1 2 3 4 5; do
  (sleep 0.0$i; ls -l / | wc -l) &
  cat '#mem/kmemstat' | sort | tail -n 3
done
wait
head -c 16 '#random/random' | od -x
date
"""


@pytest.mark.parametrize("smp", ("1", "2", "3"))
def test_a_run_repeats(smp):
    first, second = (guest(WORK, "--icount", "--smp", smp, log=False) for _ in range(2))
    assert first.status == 0, first
    assert "ticks of the time stamp counter" in first.stderr
    assert (second.stdout, second.stderr) == (first.stdout, first.stderr)


def wait_for_power_off(log, run):
    for _ in range(int(GIVE_UP / INTERVAL)):
        if b"ticks of the time stamp counter" in pathlib.Path(log).read_bytes():
            return
        time.sleep(INTERVAL)
    run.kill()
    pytest.fail("the guest waits for whoever reads what it prints")


def test_whoever_reads_late_is_not_seen():
    """The guest prints more than a pipe can hold. In the first run, the test reads the output at once. In the second run, the test reads the output
    only after the guest has ended. Both runs execute the same instructions."""
    seen = []
    for late in (False, True):
        with tempfile.NamedTemporaryFile() as log:
            with subprocess.Popen([str(ROOT / "scripts/guest"), "--no-build", "--icount", "--smp", "2", "--log", log.name,
                                   "-c", "cat /bin/sh"], stdout=subprocess.PIPE) as run:
                if late:
                    wait_for_power_off(log.name, run)
                output = run.stdout.read()
            assert run.returncode == 0
            assert len(output) > 4 * 65536
            seen.append((output, log.read()))
    first, second = seen
    assert first == second
