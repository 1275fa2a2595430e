"""A system that is always traced: sweeps remove stacks and contexts that no record refers to any more, so trace memory does not fill up."""
import re

import pytest

from guest import checked, ctl_in, dumps_in, functions_of, sections_of
from stele.tracedump import TraceDump

pytestmark = pytest.mark.cpus(1)

CTL = "'#mem/kmemtrace/ctl'"


# `processes` processes start and end before leakdemo leaks. The trace memory in use depends on the
# CPUs that were active since the last sweep. So the test reads the amount of memory in use ten times
# during the first thousand processes and ten times during the last thousand, and compares the maxima.
@pytest.mark.parametrize("cpus, limit, processes", (
    (1, "2M", 4_000),
    pytest.param(1, "4M", 100_000, marks=pytest.mark.long),
    pytest.param(4, "4M", 100_000, marks=pytest.mark.long),
))
def test_processes_come_and_go(cpus, limit, processes):
    output = checked(f"""
look() {{ echo "== $1"; cat {CTL}; }}
batches() {{ i=0; while [ $i -lt $1 ]; do proctest forks $2; echo settle > {CTL}; head -n 1 {CTL}; i=$((i + $2)); done; }}  # whoever has ended is freed
echo limit {limit} > {CTL}
echo start > {CTL}
echo '== first thousand'; batches 1000 100; look first
echo '== between'; batches {processes - 2_000} 500
echo '== last thousand'; batches 1000 100; look all
echo sweep > {CTL}; look swept
leakdemo leak 5
echo '== leak'; cat '#mem/kmemtrace/leaky'
""", "--smp", str(cpus), "--timeout", "3600")
    parts = sections_of(output)
    (early, _), (late, traces), (swept, _) = (ctl_in(parts[name]) for name in ("first", "all", "swept"))
    assert sum(trace.counters["contexts_lost"] + trace.counters["stacks_lost"] for trace in traces) == 0, output
    assert sum(trace.counters["recorded"] for trace in traces) > 10 * processes, output
    assert late["sweeps"] > early["sweeps"] and swept["forgotten"] > 0.2 * processes, output
    assert late["contexts"] < processes / 3 and swept["contexts"] < 100, output
    used = {name: [int(bytes) for bytes in re.findall(r" used (\d+) ", parts[name])] for name in ("first thousand", "last thousand")}
    assert [len(looks) for looks in used.values()] == [10, 10], output
    assert max(used["last thousand"]) <= min(1.1 * max(used["first thousand"]), late["limit"]), output
    [dump] = dumps_in(parts["leak"])
    assert (dump.counters["live"], dump.lost(), dump.broken_identities()) == (5, {}, []), output
    [group] = dump.groups
    assert group.frames[0].startswith("leaky_open+") and group.frames[0].endswith(" [kernel]"), output
    [stack] = group.user_stacks
    assert re.fullmatch(r"pid \d+ leakdemo", stack.owner) and stack.objects == 5
    assert functions_of(stack.frames, "leakdemo") == ["open", "use", "main", "__stele_start", "_start"], output


def named_in(dump):
    """Returns the records of objects of `leaky` in a binary dump, each with the frames of its two stacks, and the PID and name from its context."""
    return [(record.object, record.size, record.mark, *(dump.stacks[number].frames for number in (record.stack, record.user_stack)),
             dump.contexts[record.context].pid, dump.contexts[record.context].name) for record in dump.source("leaky").records]


def test_what_is_open_stays_readable(tmp_path):
    """Dump files, `counts` and `events` that were opened before sweeps have the same text after the sweeps. A binary dump copies records from its
    snapshot only when a process reads the dump; until then the snapshot keeps the stacks and contexts that the records refer to. A text dump
    reads its snapshot already at open."""
    output = checked(f"""
sweeps() {{ for i in 1 2 3 4; do proctest forks 100; echo sweep > {CTL}; done; }}
echo start > '#mem/kmemtrace/leaky'; echo start > '#mem/kmemtrace/chan'
leakdemo leak 3
echo '== before'; cat '#mem/kmemtrace/leaky'; cat '#mem/tracedump' > /host/before
exec 5< '#mem/kmemtrace/leaky' 7< '#mem/tracedump'
printf 'stop\nreset' > '#mem/kmemtrace/leaky'
exec 3<>'#probe/clone'; read n <&3
printf 'count Chan::*\nstacks both\nprocesses\nevent Chan::create\nstart' >&3
exec 4< "#probe/$n/events"
ls / | cat > /dev/null
echo stop >&3
echo '== counts before'; cat "#probe/$n/counts"
exec 6< "#probe/$n/counts"
sweeps
echo '== after'; cat <&5; cat <&7 > /host/after
echo '== counts after'; cat "#probe/$n/counts"
echo '== counts open'; cat <&6
echo '== events'; cat <&4
""", "--timeout", "300", "--share", str(tmp_path))
    binary = [named_in(TraceDump.load(tmp_path / name)) for name in ("before", "after")]
    assert len(binary[0]) == 3 and binary[0][0][-1] == "leakdemo" and binary[1] == binary[0], output
    parts = sections_of(output)
    before, after = (re.sub(r"\b(age|min|avg|max) \d+", "", parts[name]) for name in ("before", "after"))
    assert "leakdemo" in before and after == before, output
    assert parts["counts before"].count("\ncount ") > 2
    assert parts["counts after"] == parts["counts open"] == parts["counts before"], output
    names = re.findall(r" name (\S+) call ", parts["events"])
    assert names and set(names) <= {"sh", "ls", "cat"}, output
