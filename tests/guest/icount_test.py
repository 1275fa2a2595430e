"""Under --icount a run is the same each time, to the instruction, however busy the host is."""
import pathlib
import subprocess
import tempfile
import time
import unittest

from guest import ROOT, guest

GIVE_UP, INTERVAL = 60, 0.05  # seconds

# Processes, pipes, memory and sleeps, in which all CPUs idle.
WORK = """
for i in 1 2 3 4 5; do
  (sleep 0.0$i; ls -l / | wc -l) &
  cat '#mem/kmemstat' | sort | tail -n 3
done
wait
head -c 16 '#random/random' | od -x
date
"""


class Repeats(unittest.TestCase):
    def check(self, smp):
        first, second = (guest(WORK, "--icount", "--smp", smp, log=False) for _ in range(2))
        self.assertEqual(first.status, 0, first)
        self.assertIn("ticks of the time stamp counter", first.stderr)
        self.assertEqual((second.stdout, second.stderr), (first.stdout, first.stderr))

    def wait_for_power_off(self, log, run):
        for _ in range(int(GIVE_UP / INTERVAL)):
            if b"ticks of the time stamp counter" in pathlib.Path(log).read_bytes():
                return
            time.sleep(INTERVAL)
        run.kill()
        self.fail("the guest waits for whoever reads what it prints")

    def test_one_processor(self):
        self.check("1")

    def test_two_processors(self):
        self.check("2")

    def test_three_processors(self):
        self.check("3")

    def test_whoever_reads_late_is_not_seen(self):
        """What the guest prints is more than a pipe holds; one reads as it comes, the other when the guest has ended."""
        seen = []
        for late in (False, True):
            with tempfile.NamedTemporaryFile() as log:
                with subprocess.Popen([str(ROOT / "scripts/guest"), "--no-build", "--icount", "--smp", "2", "--log", log.name,
                                       "-c", "cat /bin/sh"], stdout=subprocess.PIPE) as run:
                    if late:
                        self.wait_for_power_off(log.name, run)
                    output = run.stdout.read()
                self.assertEqual(run.returncode, 0)
                self.assertGreater(len(output), 4 * 65536)
                seen.append((output, log.read()))
        self.assertEqual(*seen)


if __name__ == "__main__":
    unittest.main()
