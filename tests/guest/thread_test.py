"""Threads as programs use them (user/bin/threadtest)."""
import re

import pytest

from guest import guest


@pytest.mark.parametrize("cpus", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_every_check_of_threadtest(cpus):
    result = guest("exec threadtest")
    assert "not ok" not in result.stdout
    assert result.status == 0, result
    assert re.search(r"(?m)^1\.\.\d+$", result.stdout)
