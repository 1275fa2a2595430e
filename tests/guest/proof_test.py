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
@pytest.mark.parametrize("smp, rounds", (("4", 12), ("2", 10), pytest.param("4", 200, marks=pytest.mark.long)))
def test_an_episode_repeats_from_its_seed(smp, rounds):
    first = run_once(smp, rounds)
    assert len(re.findall(r"proof: seed=.* hash ", first)) == (rounds + 19) // 20, first
    assert run_once(smp, rounds) == first


@pytest.mark.long
@pytest.mark.parametrize("bug", ("sweep_forgets_root", "sweep_no_second_look", "sweep_early_reuse"))
def test_what_is_forgotten_too_soon_is_found(bug):
    """By a record with another's stack or process, or by the sweep itself, which is asked to keep a
    forgotten entry."""
    run = subprocess.run([str(ROOT / "scripts/guest"), "--no-build", "--variant", "break", "--icount", "--smp", "8", "--timeout", "3000",
                          "--ktest=trace_proof", "--cmdline", f"rounds=1000 break={bug}"], capture_output=True, check=False)
    text = run.stderr.decode("utf-8", "replace")
    assert run.returncode != 0 and f"broken on purpose: {bug}" in text, text
    assert "DIFFERENCES" in text or re.search(r"kernel panic: \S+intern_table.cc:\d+: alive", text), text
