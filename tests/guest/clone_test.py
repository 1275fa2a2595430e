"""Threads of processes: the program clonetest (tests/programs/clonetest) passes all its checks, and no tasks are left after its threads have ended."""
import pytest

from guest import guest, live_counts


@pytest.mark.parametrize("cpus", [pytest.param(1, marks=[pytest.mark.cpus(1), pytest.mark.long]), pytest.param(4, marks=pytest.mark.cpus(4))])
def test_every_check_of_clonetest(cpus):
    result = guest("exec clonetest", "--smp", str(cpus))
    assert result.status == 0, result
    assert "not ok" not in result.stdout


@pytest.mark.cpus(4)
def test_dead_threads_do_not_pile_up():
    result = guest("for i in 1 2 3; do clonetest > /dev/null; done; cat '#mem/kmemstat'")
    assert result.status == 0, result
    (counts,) = live_counts(result.stdout)
    assert counts["task"] < 500, result
