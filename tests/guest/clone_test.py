"""Threads as the kernel makes them (user/bin/clonetest)."""
import pytest

from guest import guest


@pytest.mark.parametrize("cpus", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_every_check_of_clonetest(cpus):
    result = guest("exec clonetest", "--smp", str(cpus))
    assert result.status == 0, result
    assert "not ok" not in result.stdout
