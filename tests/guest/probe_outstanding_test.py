"""#probe/N/outstanding: the live objects of a program, by allocating stack."""
import re

import pytest

from guest import checked
from probed import ENDS, Program, check_nothing_left
from stele.tracedump import TraceDump

pytestmark = pytest.mark.cpus(1)


def dump_of(folder, commands, work):
    (folder / "commands").write_text(commands + "\nstart\n")
    output = checked(f"""exec 3<>#probe/clone; read n <&3
cat /host/commands >&3
{work}
cat "#probe/$n/outstanding" > /host/dump; cat "#probe/$n/counts"; exec 3>&-; echo =;{ENDS}""", "--share", str(folder))
    text, rest = output.split("=\n")
    check_nothing_left(rest)
    dump = TraceDump.load(folder / "dump")
    for source in dump.sources:
        assert (source.kind, source.counters["seen"]) == ("probe", source.counters["recorded"] + source.counters["dropped"] + source.counters["filtered"])
        assert source.counters["recorded"] == source.counters["freed"] + source.counters["cleared"] + source.counters["live"]
        assert (source.counters["live"], source.counters["dropped"]) == (len(source.records), 0)
        assert (source.counters["stacks_lost"], source.counters["contexts_lost"]) == (0, 0)
    return dump, text


def check(folder, mode, commands, name="probe/1"):
    dump, text = dump_of(folder, commands, f"heaptest {mode} || echo failed")
    records = {record.object: record for record in dump.source(name).records}
    left = {int(at, 16): int(size) for at, size in re.findall(r"^left ([0-9a-f]+) (\d+)$", text, re.M)}
    gone = {int(at, 16) for at in re.findall(r"^gone ([0-9a-f]+)$", text, re.M)} - set(left)
    assert left
    assert "failed" not in text
    assert {at: records[at].size for at in left if at in records} == left, text
    assert gone & set(records) == set(), text
    for record in records.values():
        assert (dump.contexts[record.context].path, dump.stacks[record.stack].kind) == ("/bin/heaptest", "user")
    return dump, records, text


def test_objects(tmp_path):
    program = Program("heaptest")
    dump, records, text = check(tmp_path, "objects", program.allocators())
    main = program.functions["main"]
    for record in records.values():
        frames = dump.stacks[record.stack].frames
        if record.size in (100, 70, 333):
            assert any(main[0] < frame <= main[0] + main[1] for frame in frames[:4]), (record, frames)
    assert dump.source("probe/1").counters["unmatched"] == 0
    assert len([record for record in records.values() if record.size == 100]) == 3


def test_fork(tmp_path):
    dump, _, _ = check(tmp_path, "fork", Program("heaptest").allocators())
    assert dump.source("probe/1").counters["unmatched"] == 1  # the child's copy of the object has no record, and the child frees it


def test_exec(tmp_path):
    dump, _, _ = check(tmp_path, "exec", Program("heaptest").allocators())
    assert dump.source("probe/1").counters["cleared"] > 0


def test_memory(tmp_path):
    dump, records, _ = check(tmp_path, "memory", "watch memory", "probe/1/mmap")
    assert sorted(record.size for record in records.values()) == [4096, 3 * 4096, 4 * 4096]


def test_exception(tmp_path):
    program = Program("heaptest")
    check(tmp_path, "throw", f"alloc {program.at('_Znwm', True)} size=1\n{program.allocators()}")


def test_size_filters(tmp_path):
    dump, _ = dump_of(tmp_path, Program("heaptest").allocators() + "\nmin 100\nmax 333", "heaptest objects")
    source = dump.source("probe/1")
    assert all(100 <= record.size <= 333 for record in source.records)
    assert source.counters["filtered"] > 5
