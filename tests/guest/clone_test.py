"""Threads of processes: no tasks are left after they have ended."""
import pytest

from guest import guest, live_counts


@pytest.mark.cpus(4)
def test_dead_threads_do_not_pile_up():
    result = guest("for i in 1 2 3; do clonetest > /dev/null; done; cat '#mem/kmemstat'")
    assert result.status == 0, result
    (counts,) = live_counts(result.stdout)
    assert counts["task"] < 500, result
