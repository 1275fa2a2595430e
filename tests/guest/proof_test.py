"""The proof of the tracer (kern/tests/trace_proof_test.cc) under --icount, where CPUs see a change at very different moments."""
import re
import subprocess

import pytest

from guest import ROOT

pytestmark = pytest.mark.icount


def run_once(smp, rounds):
    run = subprocess.run([str(ROOT / "scripts/guest"), "--no-build", "--icount", "--smp", smp, "--timeout", "900", "--ktest=trace_proof", "--cmdline",
                          f"rounds={rounds} seed=20240229"], capture_output=True, check=False)
    text = run.stderr.decode("utf-8", "replace")
    assert run.returncode == 0, text
    return text


# An episode has 20 rounds.
@pytest.mark.parametrize("smp, rounds", (("4", 20), ("2", 10), pytest.param("4", 200, marks=pytest.mark.long)))
def test_an_episode_repeats_from_its_seed(smp, rounds):
    first = run_once(smp, rounds)
    assert len(re.findall(r"proof: seed=.* hash ", first)) == (rounds + 19) // 20, first
    assert run_once(smp, rounds) == first
