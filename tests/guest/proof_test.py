"""The proof of the tracer (kern/tests/trace_proof_test.cc) under --icount, where CPUs see a change at very different moments."""
import re
import subprocess
import unittest

from guest import ROOT


class Replay(unittest.TestCase):
    def run_once(self, smp, rounds):
        run = subprocess.run([str(ROOT / "scripts/guest"), "--no-build", "--icount", "--smp", smp, "--ktest=trace_proof", "--cmdline",
                              f"rounds={rounds} seed=20240229"], capture_output=True, check=False)
        text = run.stderr.decode("utf-8", "replace")
        self.assertEqual(run.returncode, 0, text)
        return text

    def check(self, smp, rounds):
        first = self.run_once(smp, rounds)
        self.assertEqual(len(re.findall(r"proof: seed=.* hash ", first)), (rounds + 19) // 20, first)
        self.assertEqual(self.run_once(smp, rounds), first)

    def test_an_episode_repeats_from_its_seed(self):
        self.check("4", 40)

    def test_it_does_so_with_two_processors(self):
        self.check("2", 10)


if __name__ == "__main__":
    unittest.main()
