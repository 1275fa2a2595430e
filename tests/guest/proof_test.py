"""The proof of the tracer (kern/tests/trace_proof_test.cc) under --icount, where CPUs see a change at very different moments."""
import re
import subprocess
import unittest

from guest import ROOT


class Replay(unittest.TestCase):
    def run_once(self):
        run = subprocess.run([str(ROOT / "scripts/guest"), "--no-build", "--icount", "--smp", "4", "--ktest=trace_proof", "--cmdline",
                              "rounds=40 seed=20240229"], capture_output=True, check=False)
        text = run.stderr.decode("utf-8", "replace")
        self.assertEqual(run.returncode, 0, text)
        return re.findall(r"proof: (seed=.*)", text)

    def test_an_episode_repeats_from_its_seed(self):
        first = self.run_once()
        self.assertEqual(len(first), 2, first)
        self.assertEqual(self.run_once(), first)


if __name__ == "__main__":
    unittest.main()
