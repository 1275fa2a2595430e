"""Tests the binary dump, #mem/tracedump. On the host, stele.tracedump reads this dump, and finds the same records as in the text dumps."""
import pathlib
import re

import pytest

from guest import BUILD, checked, dumps_in, kernel_test, text
from stele.tracedump import Symbols, TraceDump
from stele.tracedump import text as as_text

pytestmark = pytest.mark.cpus(1)

OBJECT = re.compile(r"\t0x([0-9a-f]{16}) size (\d+) age (\d+) mark (\d+) cpu (\d+)\b.*? ((?:pid \d+|task|irq|unknown)\b.*)")


def objects_of(dump_text):
    """Returns {address: (stack, size, age, mark, cpu, context)} of the text dumps."""
    objects, stack = {}, ()
    for line in dump_text.splitlines():
        if " allocations from stack" in line:
            stack = ()
        elif found := OBJECT.fullmatch(line):
            objects[int(found[1], 16)] = (stack, *map(int, found.group(2, 3, 4, 5)), found[6])
        elif line.startswith("\t") and line.endswith("[kernel]"):
            stack += (line.strip(),)
    return objects


def run_guest(folder, script, *options):
    return checked(script, "--share", str(folder), *options)


def load(path):
    dump = TraceDump.load(path)
    for source in dump.sources:
        assert source.broken_identities() == []
    return dump


@pytest.mark.cpus(4)
def test_says_what_the_text_dumps_say(tmp_path):
    """The binary dump and the text dumps have the same records. The test compares the records of four caches and an arena, with contexts, stacks,
    marks and filters. One of the traces is sampled."""
    run_guest(tmp_path, """
for cache in debug_64 debug_1024 kmalloc_128; do echo start > "#mem/kmemtrace/$cache"; done
for depth in 1 2 3 5 8 13; do echo "leak debug_64 90 depth=$depth" > #debug/alloc; echo mark > '#mem/kmemtrace/debug_64'; done
sh -c 'echo "leak debug_1024 40 irq" > #debug/alloc; echo "leak debug_1024 50 depth=2" > #debug/alloc'
echo 'free debug_64 100' > #debug/alloc
printf 'stop\\nstart min=100 depth=4\\n' > '#mem/kmemtrace/debug_64'; echo 'leak debug_64 9' > #debug/alloc
echo 'start sample=512' > '#mem/kmemtrace/leaky'; i=0; while [ $i -lt 90 ]; do leakdemo leak 1 > /dev/null; i=$((i + 1)); done
echo 'start min=40960 max=40960' > '#mem/kmemtrace/kernel_virtual'; echo 'leak kernel_virtual 25 size=40960 depth=3' > #debug/alloc
echo stop > '#mem/kmemtrace/ctl'
echo settle > '#mem/kmemtrace/ctl'
for name in debug_64 debug_1024 kmalloc_128 leaky kernel_virtual; do cat "#mem/kmemtrace/$name"; done > /host/text
cat '#mem/tracedump' > /host/binary
""")
    dump = load(tmp_path / "binary")
    written = text((tmp_path / "text").read_bytes())
    texts = {parsed.name: parsed for parsed in dumps_in(written)}
    assert {source.name for source in dump.sources} == set(texts)
    for source in dump.sources:
        parsed = texts[source.name]
        counters = dict(parsed.counters)
        assert source.stacks == counters.pop("stacks")
        # In the arena, other memory is allocated and freed between the text dump and the binary dump, which changes these counters.
        moving = ("untracked", "unmatched") if source.kind == "arena" else ()
        assert {key: counters[key] for key in source.counters if key not in moving} == {key: value for key, value in source.counters.items() if key not in moving}
        header = dict(parsed.header)
        assert (source.kind, source.state) == ("arena" if source.name == "kernel_virtual" else "cache", header.pop("state"))
        assert (source.object_size, source.mark) == (int(header.pop("objsize")), int(header.pop("mark")))
        assert source.options == {key: int(value) for key, value in header.items()}
    assert [record.size for record in dump.source("kernel_virtual").records] == [40960] * 25
    symbols = Symbols(BUILD / "stele.elf")
    shown = objects_of(written)
    for source in dump.sources:
        later = set()
        for record in source.records:
            stack, size, age, mark, cpu, context = shown.pop(record.object)
            assert (record.size, record.mark, record.cpu) == (size, mark, cpu)
            assert dump.context_name(record.context) == context
            assert tuple(map(symbols.frame, dump.stacks[record.stack].frames)) == stack
            later.add(dump.age(record) - age)
        assert sum(map(source.weight, source.records)) == pytest.approx(source.counters["estimated_objects"], abs=1)
        # The text dump is older, so all ages differ by the same amount.
        assert len(later) <= 1
    assert shown == {}
    kinds = {dump.contexts[record.context].kind for source in dump.sources for record in source.records}
    assert {"process", "irq"} <= kinds
    # In the binary dump, the context of a process has the path and the build id of the program. A record has the user stack of the allocation.
    for context in (context for context in dump.contexts.values() if context.kind == "process"):
        assert (context.name, bool(context.build_id)) == (pathlib.PurePath(context.path).name, True)
    callers = {record.user_stack for source in dump.sources for record in source.records} - {0}
    assert {dump.stacks[number].kind for number in callers} == {"user"}
    assert any(len(dump.stacks[number].frames) > 3 for number in callers)
    of_processes = {dump.contexts[record.context].kind for source in dump.sources for record in source.records if record.user_stack}
    assert of_processes == {"process"}
    # stele.tracedump can write the dump as text. This text has the same contents as the text dumps.
    again = {parsed.name: parsed for parsed in dumps_in("\n".join(as_text(dump, symbols)))}
    for name, parsed in texts.items():
        assert (again[name].header, again[name].counters | {"untracked": 0, "unmatched": 0}) == (parsed.header, parsed.counters | {"untracked": 0, "unmatched": 0})
        assert sorted((group.bytes, group.frames, group.marks) for group in again[name].groups) == sorted((group.bytes, group.frames, group.marks) for group in parsed.groups)


@pytest.mark.cpus(4)
def test_counts_the_frees_that_the_text_dumps_count(tmp_path):
    """One trace counts frees and one does not. The stacks that only freed do not count in the number of stacks."""
    run_guest(tmp_path, """
echo 'start frees' > '#mem/kmemtrace/debug_64'; echo 'start frees' > '#mem/kmemtrace/leaky'; echo start > '#mem/kmemtrace/debug_1024'
for depth in 1 2 3; do for cache in debug_64 debug_1024; do echo "leak $cache 9 depth=$depth" > #debug/alloc; echo "free $cache 5" > #debug/alloc; done; done
leakdemo clean; leakdemo leak 3
echo stop > '#mem/kmemtrace/ctl'
for name in debug_64 debug_1024 leaky; do cat "#mem/kmemtrace/$name"; done > /host/text
cat '#mem/tracedump' > /host/binary
""")
    dump = load(tmp_path / "binary")
    assert dump.frees_uncounted == 0
    assert {name for name in ("debug_64", "debug_1024", "leaky") if "frees" in dump.source(name).options} == {"debug_64", "leaky"}
    [freed] = dump.source("leaky").frees.values()
    assert list(freed.values()) == [10]
    assert dump.source("debug_1024").frees == {}
    again = {parsed.name: parsed for parsed in dumps_in("\n".join(as_text(dump, Symbols(BUILD / "stele.elf"))))}
    frees = {}
    for parsed in dumps_in(text((tmp_path / "text").read_bytes())):
        assert again[parsed.name].header == parsed.header
        groups = [sorted((group.frames, group.frees) for group in one.groups) for one in (parsed, again[parsed.name])]
        assert groups[0] == groups[1]
        frees[parsed.name] = sum(by.number for group in parsed.groups for by in group.frees)
        assert frees[parsed.name] <= parsed.counters["freed"]
    assert (frees["leaky"], frees["debug_1024"]) == (10, 0)
    assert frees["debug_64"] > 0


def test_nothing_traced(tmp_path):
    output = run_guest(tmp_path, "cat '#mem/tracedump' > /host/empty; ls -l '#mem' | grep tracedump; proctest walk 65534 '#mem/tracedump'")
    dump = load(tmp_path / "empty")
    assert (dump.sources, dump.stacks, dump.contexts) == ([], {}, {})
    assert output.startswith("-r--------") and output.endswith("tracedump\nwalked 1\n"), output  # only root can read the file


def test_knows_the_kernel(tmp_path):
    run_guest(tmp_path, "cat '#mem/tracedump' > /host/empty")
    assert bytes.fromhex(load(tmp_path / "empty").build_id) in (BUILD / "stele.elf").read_bytes()


def test_is_of_its_moment(tmp_path):
    """The binary dump has the records of the moment when it was opened, although it is read in small pieces while the objects are freed and the
    trace is reset."""
    run_guest(tmp_path, """
t='#mem/kmemtrace/debug_64'
echo start > "$t"
echo 'leak debug_64 100 depth=4' > #debug/alloc; exec 3< '#mem/tracedump'
echo 'leak debug_64 50 depth=2' > #debug/alloc
head -c 100 <&3 > /host/dump
echo 'free debug_64 150' > #debug/alloc; printf 'stop\nreset\n' > "$t"
dd bs=13 <&3 >> /host/dump 2> /dev/null
exec 3<&-
cat #mem/kmemtrace/ctl > /host/ctl
""")
    assert len(load(tmp_path / "dump").source("debug_64").records) == 100
    assert " used 0 " in text((tmp_path / "ctl").read_bytes())


def test_the_second_reader_waits_and_can_be_killed(tmp_path):
    """Only one reader at a time has a snapshot of a trace; a second reader waits. Meanwhile other traces can be read. When a waiting reader is
    killed, it leaves no trace memory in use."""
    output = run_guest(tmp_path, """
t='#mem/kmemtrace/debug_64'
used() { awk '$1 == "trace" { print $4, $5 }' '#mem/kmemstat'; }
wait_until_asleep() { until [ "$(cut -d ' ' -f 3 /proc/$1/stat)" = S ]; do :; done; }
echo start > "$t"; echo 'leak debug_64 100 depth=4' > #debug/alloc
cat '#mem/tracedump' "$t" > /dev/null
echo before $(used)
exec 3< '#mem/tracedump'
for signal in TERM KILL; do
  cat '#mem/tracedump' > /host/killed 3<&- & a=$!
  cat "$t" > /host/killed 3<&- & b=$!
  wait_until_asleep $a; wait_until_asleep $b
  kill -$signal $a $b; wait $a 2> /dev/null; echo status $?; wait $b 2> /dev/null; echo status $?
done
cat '#mem/kmemtrace/pipe' > /host/off
cat '#mem/tracedump' > /host/later 3<&- & a=$!
wait_until_asleep $a
echo 'leak debug_64 11' > #debug/alloc
cat <&3 > /host/dump; exec 3<&-
wait $a; echo status $?
echo after $(used)
""")
    lines = output.splitlines()
    assert [line for line in lines if line.startswith("status")] == ["status 143"] * 2 + ["status 137"] * 2 + ["status 0"], output
    assert (tmp_path / "killed").read_bytes() == b""
    assert [len(load(tmp_path / name).source("debug_64").records) for name in ("dump", "later")] == [100, 111]
    assert lines[0].removeprefix("before") == lines[-1].removeprefix("after"), output


@pytest.mark.long
@pytest.mark.cpus(4)
def test_a_million_records_when_memory_is_full():
    """Runs the kernel's own test of large dumps (dump_when_memory_is_full) with a million records instead of 20,000."""
    run = kernel_test("dump_when_memory_is_full", "--timeout", "900", "--cmdline", "dump_records=1000000")
    assert (run.status, run.stderr.count("\nok ")) == (0, 1)


def test_250000_records(tmp_path):
    run_guest(tmp_path, """
t='#mem/kmemtrace/debug_64'
echo start > "$t"; echo 'leak debug_64 250000 depth=6' > #debug/alloc
cat '#mem/tracedump' > /host/large
""", "--mem", "1G")
    dump = load(tmp_path / "large")
    [source] = dump.sources
    assert (len(source.records), source.stacks) == (250000, 1)
    assert len({record.object for record in source.records}) == 250000


@pytest.mark.cpus(4)
def test_large_dumps_while_others_allocate(tmp_path):
    """Two open dumps of 100,000 objects need much less memory than the records. Other processes allocate from the traced cache while the dumps are
    open and read."""
    output = run_guest(tmp_path, """
t='#mem/kmemtrace/debug_64'
allocs() { awk '$1 == "debug_64" { print $7 }' '#mem/kmemstat'; }
say() { echo "$1 allocs $(allocs) $(grep free '#mem/free')"; }
others_allocate() { since=$(allocs); while [ "$(allocs)" -le "$since" ]; do :; done; }
echo start > "$t"
for i in 1 2 3 4 5 6 7 8 9 10; do echo 'leak debug_64 10000' > #debug/alloc; done
: > /tmp/churn
while [ -e /tmp/churn ]; do echo 'churn debug_64 500' > #debug/alloc; done &
others_allocate
say before
exec 3< "$t" 4< '#mem/tracedump'
say open
others_allocate
cat <&3 > /host/text; cat <&4 > /host/binary
say read
exec 3<&- 4<&-
rm /tmp/churn; wait
echo settle > '#mem/kmemtrace/ctl'
say closed
""", "--timeout", "120")
    said = {words[0]: (int(words[2]), int(words[4])) for words in map(str.split, output.splitlines())}
    allocs, free = ({when: values[i] for when, values in said.items()} for i in (0, 1))
    assert allocs["read"] > allocs["open"]
    # Open dumps do not copy the records: they use less than half of the records' memory.
    records = 100_000 * 32
    assert free["open"] > free["before"] - records // 2
    assert free["closed"] > free["before"] - records // 2
    [parsed] = dumps_in(text((tmp_path / "text").read_bytes()))
    assert parsed.broken_identities() == []
    source = load(tmp_path / "binary").source("debug_64")
    for live in (parsed.counters["live"], len(source.records)):
        assert live in (100_000, 100_001)  # the running load may have one object more
    assert source.counters["seen"] >= parsed.counters["seen"]
