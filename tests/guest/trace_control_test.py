"""The commands to a trace, and what they say."""
import re

import pytest

from guest import ctl_in, dumps_in, guest, sections_of

pytestmark = [pytest.mark.cpus(1), pytest.mark.shares]


@pytest.fixture(scope="module")
def section():
    """One boot: {name: what each part of the script has written}."""
    result = guest("""
t='#mem/kmemtrace/debug_64'
section() { echo "== $1"; }
section off; cat "$t"
section stop_when_off; echo stop > "$t" && echo succeeded
section twice; echo start > "$t"; echo start > "$t" && echo succeeded
section other_options; { echo 'start depth=4' > "$t" || echo refused; } 2>&1
section marks
echo 'leak debug_64 3' > #debug/alloc; echo mark > "$t"
echo 'leak debug_64 4' > #debug/alloc; echo mark > "$t"; echo mark > "$t"
echo 'leak debug_64 5' > #debug/alloc
cat "$t"
section untraced; echo stop > "$t"; echo 'leak debug_64 7' > #debug/alloc; cat "$t"
section goes_on; echo start > "$t"; echo 'leak debug_64 1' > #debug/alloc; cat "$t"
section ctl; cat #mem/kmemtrace/ctl
section reset_while_running; echo reset > "$t"; echo 'leak debug_64 2' > #debug/alloc; cat "$t"
section reset; printf 'stop\\nreset\\n' > "$t"; cat "$t"
section notrace; { echo start > #mem/kmemtrace/kmem_slab || echo refused; } 2>&1; cat #mem/kmemtrace/kmem_slab
section all; echo start > #mem/kmemtrace/ctl; echo 'leak debug_1024 6' > #debug/alloc; echo settle > #mem/kmemtrace/ctl
echo stop > #mem/kmemtrace/ctl; cat #mem/kmemtrace/debug_1024
section none; echo reset > #mem/kmemtrace/ctl; cat #mem/kmemtrace/ctl
""")
    assert (result.status, result.stderr) == (0, ""), result
    return sections_of(result.stdout)


def dump_in(text):
    [dump] = dumps_in(text)
    assert dump.broken_identities() == [], text
    return dump


def test_what_is_not_traced_says_so(section):
    assert "off" in section["off"]
    assert "start" in section["off"]


def test_stop_when_off_succeeds(section):
    assert section["stop_when_off"] == "succeeded\n"


def test_start_twice(section):
    assert section["twice"] == "succeeded\n"


def test_start_with_other_options_is_busy(section):
    assert re.search(r"busy: .*depth=32: stop it first\nrefused", section["other_options"])


def test_marks(section):
    dump = dump_in(section["marks"])
    assert dump.header["mark"] == "3"
    objects = {0: 3, 1: 4, 3: 5}
    assert dump.counters["live"] == sum(objects.values())
    for mark, number in objects.items():
        assert section["marks"].count(f" mark {mark} cpu") == number
    assert set().union(*(group.marks for group in dump.groups)) == {0, 1, 3}


def test_what_is_allocated_after_stop_is_untracked(section):
    dump = dump_in(section["untraced"])
    assert (dump.header["state"], dump.counters["seen"], dump.counters["untracked"]) == ("stopped", 12, 7)


def test_start_after_stop_keeps_what_there_is(section):
    dump = dump_in(section["goes_on"])
    assert (dump.counters["live"], dump.counters["untracked"]) == (13, 7)


def test_ctl_shows_what_is_traced(section):
    memory, [trace] = ctl_in(section["ctl"])
    assert (trace.name, trace.header["state"], trace.counters["live"]) == ("debug_64", "running", 13)
    assert memory["used"] > 0
    assert memory["limit"] > memory["used"]


def test_reset_while_running_goes_on(section):
    dump = dump_in(section["reset_while_running"])
    assert (dump.header["state"], dump.counters["live"]) == ("running", 2)


def test_reset_ends_the_trace(section):
    assert "off" in section["reset"]
    assert dumps_in(section["reset"]) == []


def test_a_cache_that_is_not_to_be_traced_says_why(section):
    assert re.search(r"kmem_slab cannot be traced: .*\nrefused", section["notrace"])


def test_all_at_once(section):
    dump = dump_in(section["all"])
    assert dump.counters["live"] == 6
    memory, traces = ctl_in(section["none"])
    assert (memory["used"], traces) == (0, [])
