"""Users, terminals and sessions, as programs meet them (user/bin/sessiontest)."""
import pytest

from guest import guest


@pytest.mark.parametrize("cpus", [pytest.param(1, marks=pytest.mark.cpus(1)), pytest.param(4, marks=pytest.mark.cpus(4))])
def test_every_check_of_sessiontest(cpus):
    result = guest("exec sessiontest", "--smp", str(cpus))
    assert result.returncode == 0 and "not ok" not in result.stdout, result
