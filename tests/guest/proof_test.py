"""Runs the kernel's test that compares the tracer with an independent account of live objects (kern/tests/trace_proof_test.cc), with --icount.
With --icount, QEMU executes one CPU at a time for long stretches, so the CPUs see a change at very different times."""
import re

import pytest

from guest import kernel_test

pytestmark = pytest.mark.icount


def run_once(variant, smp, rounds):
    run = kernel_test("trace_proof", "--icount", "--smp", smp, "--timeout", "900", "--cmdline", f"rounds={rounds} seed=20240229", variant=variant)
    assert run.status == 0
    return run.stderr


# An episode of the test has 20 rounds.
@pytest.mark.parametrize("variant, smp, rounds", (
    ("debug", "4", 12), pytest.param("debug", "2", 10, marks=pytest.mark.long), pytest.param("proof", "4", 200, marks=pytest.mark.long)))
def test_an_episode_repeats_from_its_seed(variant, smp, rounds):
    first = run_once(variant, smp, rounds)
    assert len(re.findall(r"proof: seed=.* hash ", first)) == (rounds + 19) // 20, first
    assert run_once(variant, smp, rounds) == first


@pytest.mark.long
@pytest.mark.parametrize("bug", ("sweep_forgets_root", "sweep_no_second_look", "sweep_early_reuse", "reset_drops_first"))
def test_what_is_forgotten_too_soon_is_found(bug):
    """With the planted bug, a sweep forgets a stack or a context that a record still refers to. Either the test finds a record with another
    object's stack or process, or a sweep panics because it must mark an entry that is already forgotten."""
    run = kernel_test("trace_proof", "--icount", "--smp", "8", "--timeout", "3000", "--cmdline", f"rounds=1000 break={bug}")
    assert run.status != 0 and f"broken on purpose: {bug}" in run.stderr
    assert "DIFFERENCES" in run.stderr or re.search(r"kernel panic: \S+intern/table.cc:\d+: alive", run.stderr)
