"""Traces that record only some allocations: by size, process or interrupt."""
import re

import pytest

from guest import checked, ctl_in, dumps_in, sections_of

pytestmark = [pytest.mark.cpus(1), pytest.mark.shares]


@pytest.fixture(scope="module")
def section():
    """Runs one script in a guest. Returns {section of the script: output}."""
    output = checked("""
ctl='#mem/kmemtrace/ctl'
t='#mem/kmemtrace/debug_64'
u='#mem/kmemtrace/debug_1024'
section() { echo "== $1"; }
leak() { echo "leak debug_64 $1" > #debug/alloc; echo "leak debug_1024 $1" > #debug/alloc; }
echo 'start min=65 max=4K' > "$ctl"; leak 100; echo stop > "$ctl"
section ctl; grep -e '^limit' -e ' debug_' "$ctl"
section all; cat "$t" "$u"
echo reset > "$ctl"; echo 'free debug_64 100' > #debug/alloc; echo 'free debug_1024 100' > #debug/alloc
echo 'start max=64' > "$t"; echo 'start max=1023 depth=4' > "$u"; leak 5
section edge; cat "$t" "$u"
section busy; { echo 'start min=1' > "$u" || echo refused; echo start > "$ctl" || echo refused; } 2>&1
section freed; echo 'free debug_64 5' > #debug/alloc; echo 'free debug_1024 5' > #debug/alloc; cat "$t" "$u"
printf 'stop\nreset\n' > "$ctl"
section mine; echo "pid $$"; echo "start pid=$$" > "$t"
echo 'leak debug_64 30' > #debug/alloc; echo 'leak debug_64 9 irq' > #debug/alloc; sh -c 'echo "leak debug_64 20" > #debug/alloc; :'
cat "$t"
printf 'stop\nreset\n' > "$t"
section others; sh -c 'echo "pid $$"; echo "start pid=$$" > "#mem/kmemtrace/debug_64"; echo "leak debug_64 7" > #debug/alloc; :'
echo 'leak debug_64 4' > #debug/alloc; cat "$t"
printf 'stop\nreset\n' > "$t"
section errors; for options in min=x max=-1 'min=2 max=1' pid=0 pid=x size=5; do echo "start $options" > "$t" || echo refused; done 2>&1
cat "$t"
""", "--timeout", "120")
    return sections_of(output)


def counts(text):
    """Returns [(recorded, filtered, live)] of the dumps of a section."""
    dumps = dumps_in(text)
    for dump in dumps:
        assert (dump.broken_identities(), dump.lost()) == ([], {}), text
        assert dump.counters["seen"] == dump.counters["recorded"] + dump.counters["filtered"]
    return [(dump.counters["recorded"], dump.counters["filtered"], dump.counters["live"]) for dump in dumps]


def test_sizes_on_all_caches(section):
    assert counts(section["all"]) == [(0, 100, 0), (100, 0, 100)]
    dumps = dumps_in(section["all"])
    assert [(dump.header["min"], dump.header["max"]) for dump in dumps] == [("65", "4096")] * 2
    assert [dump.counters["untracked"] for dump in dumps] == [100, 0]


def test_ctl_says_the_filters(section):
    _, traces = ctl_in(section["ctl"])
    traces = {trace.name: trace for trace in traces}
    assert traces["debug_64"].counters["filtered"] == 100
    assert traces["debug_1024"].header["max"] == "4096"


def test_edges(section):
    assert counts(section["edge"]) == [(5, 0, 5), (0, 5, 0)]
    assert "min" not in dumps_in(section["edge"])[0].header


def test_other_filters_are_busy(section):
    assert re.search(r"debug_1024 is being traced with depth=4 max=1023: stop it first\nrefused\n.*busy.*\nrefused\n$", section["busy"])


def test_frees(section):
    assert counts(section["freed"]) == [(5, 0, 0), (0, 5, 0)]
    assert [dump.counters["unmatched"] for dump in dumps_in(section["freed"])] == [0, 5]


def test_one_process_and_no_interrupt(section):
    assert counts(section["mine"]) == [(30, 29, 30)]
    assert counts(section["others"]) == [(7, 4, 7)]
    for name in ("mine", "others"):
        pid = section[name].split()[1]
        [dump] = dumps_in(section[name])
        assert dump.header["pid"] == pid
        assert re.search(rf"contexts pid {pid} sh$", dump.groups[0].summary)


def test_errors(section):
    lines = section["errors"].splitlines()
    assert lines.count("refused") == 6
    for text in ('"min=x": start takes min=N', '"max=-1": start takes', "min is greater than max", '"pid=0": start takes pid=N, N from 1',
                 '"size=5": start takes depth=N, sample=N, min=N, max=N, pid=N and frees', "state off"):
        assert text in section["errors"]
