"""kmemwatch running unattended, under loads that never pause."""
import pytest

from guest import guest
from watched import LOADS, accused_in, reports_in

# On a busy host the guest's clock is slow. The timeouts count seconds of the host's clock, so they are generous.
pytestmark = [pytest.mark.long, pytest.mark.cpus(2)]


@pytest.mark.parametrize("leak, source, function", (("leakdemo leak 1", "leaky", "leaky_open"),
                                                    ("echo 'leak pipe_buffer 1' > '#debug/alloc'", "pipe_buffer", "leak_at_depth")))
def test_one_object_in_ten_seconds(leak, source, function):
    """With default options, kmemwatch names the leaking cache within ten minutes after the leak has begun, and names no other cache, although loads
    run all the time. The loads also use pipe_buffer, one of the two leaking caches."""
    result = guest(LOADS + f"""load 0; every 10000000 "{leak}"; kmemwatch -t -T 605; status=$?
echo "== dump"; cat '#mem/kmemtrace/{source}'; echo "== ctl"; cat #mem/kmemtrace/ctl; exit $status""", "--timeout", "3600")
    assert result.status == 1, result
    output, _, rest = result.stdout.partition("== dump\n")
    (seconds, _, lines), *_ = reports_in(output)
    assert accused_in(output) == {source}
    assert seconds <= 600 and lines[source].state == "grows, traced"
    assert f"{function}+" in rest
    assert rest.count(" state ") == 2, "the dump's and, in ctl, this one's"


def test_a_clean_hour():
    result = guest(LOADS + "load 0; kmemwatch -t -v -T 3600; status=$?; grep state #mem/kmemtrace/ctl; exit $status", "--timeout", "14400")
    assert result.status == 0, result
    assert accused_in(result.stdout) == set()
    assert len(reports_in(result.stdout)) > 40
