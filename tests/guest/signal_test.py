"""Signals, timers, waiting and limits, as programs meet them (user/bin/sigtest)."""
import re

import pytest

from guest import guest


@pytest.mark.parametrize("cpus", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_every_check_of_sigtest(cpus):
    result = guest("exec sigtest")
    assert "not ok" not in result.stdout
    assert result.status == 0, result
    assert re.search(r"(?m)^1\.\.\d+$", result.stdout)
