"""The proof of the tracer (kern/tests/trace_proof_test.cc) under --icount, where CPUs see a change at very different moments."""
import re
import subprocess

import pytest

from guest import ROOT

pytestmark = pytest.mark.icount


def run_once(smp, rounds):
    run = subprocess.run([str(ROOT / "scripts/guest"), "--no-build", "--icount", "--smp", smp, "--ktest=trace_proof", "--cmdline",
                          f"rounds={rounds} seed=20240229"], capture_output=True, check=False)
    text = run.stderr.decode("utf-8", "replace")
    assert run.returncode == 0, text
    return text


def check(smp, rounds):
    first = run_once(smp, rounds)
    assert len(re.findall(r"proof: seed=.* hash ", first)) == (rounds + 19) // 20, first
    assert run_once(smp, rounds) == first


def test_an_episode_repeats_from_its_seed():
    check("4", 40)


def test_it_does_so_with_two_processors():
    check("2", 10)
