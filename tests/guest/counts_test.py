"""The counts of bench/ do not become worse unseen."""
import pytest

import counts
from guest import guest


@pytest.mark.icount
def test_no_count_is_worse_than_the_baseline():
    worse = counts.worse(counts.measure(build=False), counts.baseline())
    assert not worse, "\n".join(["where that is meant, `make bench-baseline` says so:", *worse])


def test_one_reader_at_a_time_has_the_benches_run():
    result = guest("cat '#bench/rows' > /tmp/a & cat '#bench/rows' > /tmp/b & wait; cat /tmp/a /tmp/b")
    assert result.stderr.count("somebody else reads #bench/rows") == 1, result
    assert sum(line.startswith("traced ") for line in result.stdout.splitlines()) == 1
