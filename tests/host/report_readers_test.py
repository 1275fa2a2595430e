"""How scripts/report reads its inputs: dumps, texts of traces, and the outputs of leaktest, memleak
and stackcount."""
import json

import pytest

import report_fakes as fakes
from report_fakes import TAKEN, USER, dump, records, source
from stele.report import reading
from stele.report.profile import Amount, ReportError
from stele.tracedump import Record


@pytest.fixture
def read(tmp_path, monkeypatch):
    lookup = fakes.lookup(tmp_path, monkeypatch)

    with fakes.in_memory() as (path, write):
        def read_it(data):
            write(data.encode() if isinstance(data, str) else data)
            return reading.read(path, lookup)
        yield read_it


def only_key(profile):
    [(key, amount)] = profile.amounts.items()
    return key, amount


def test_a_dump(read):
    profile = read(dump(source("pipe", records(3) + records(2, time=3_499_000_000))))
    assert {key.age: amount for key, amount in profile.amounts.items()} == {"1 to 10 s": Amount(3, 192), "below 1 s": Amount(2, 128)}
    key = next(iter(profile.amounts))
    assert (key.source, key.process, key.mark) == ("pipe", "pid 12 sh", 0)
    assert [frame.function for frame in key.frames] == ["0xffffffff80001234", "0xffffffff80005678"]
    assert [(frame.function, frame.module, frame.build_id) for frame in key.user_frames] == [("0x401000", "/bin/sh", "abcd")]
    assert profile.incomplete == ["no kernel with the build id 010203 is here: its functions have no names (--kernel)"]
    assert (profile.seconds, profile.sources["pipe"].counters["live"]) == (3.5, 5)


def test_caches_that_were_made_under_one_name_are_one(read):
    assert read(dump(source("fresh", records(1)), source("fresh.2", records(2)))).total() == Amount(3, 192)
    assert set(read(dump(source("fresh", records(1)), source("fresh.2", records(2)))).sources) == {"fresh"}


def test_estimates_are_right_in_sum(read):
    """The estimates of 100 keys are rounded so that their sum is right within half an object. If
    each key were rounded separately, the errors would add up."""
    each = [one for mark in range(100) for one in records(1, size=300, mark=mark)]
    traced = source("pipe", each, sample=512, estimated_bytes=0, estimated_objects=0)
    wanted = sum(map(traced.weight, each))
    total = read(dump(traced)).total()
    assert abs(total.objects - wanted) <= 0.5 and abs(total.bytes - 300 * wanted) <= 0.5
    assert len(read(dump(traced)).amounts) == 100


def test_what_is_missing_is_told(read):
    incomplete = read(dump(source("pipe", records(1), seen=6, dropped=2, filtered=3, pid=12, stacks_lost=1))).incomplete
    assert incomplete[:3] == ["pipe: 2 allocations were not recorded for lack of memory", "pipe: 1 stacks were not recorded for lack of memory",
                        "pipe: 3 allocations were filtered out (pid=12)"]


def test_counters_that_cannot_be_are_damage(read):
    with pytest.raises(ReportError, match="pipe: does not hold: seen = recorded"):
        read(dump(source("pipe", records(1), seen=7)))


def test_holders_are_the_references_to_an_object(read):
    chans = records(2)
    taken = Record(chans[1].object, 0, 0, TAKEN, 5)
    other = Record(0xFFFF800000777000, 0, 0, TAKEN, 5)
    profile = read(dump(source("chan", chans), source("ref.chan", [taken, other], "references")))
    [lines] = profile.holders.values()
    assert lines == [f"reference to {taken.object:#x} taken by 0xffffffff80009000"]
    assert profile.total() == Amount(4, 128)


def test_stacks_of_programs_alone(read):
    """In a trace of a probe session, a record has only the stack of a program."""
    key, _ = only_key(read(dump(source("malloc", records(1, stack=USER, user_stack=0), "probe"))))
    assert (key.frames, [frame.function for frame in key.user_frames]) == ((), ["0x401000"])


TRACE = """kmemtrace debug_64 state stopped objsize 64 depth 32 mark 4
seen {seen} recorded 5 dropped 0 filtered 0 freed 0 cleared 0 live 5 bytes 320 untracked 12 unmatched 3 stacks 2 stacks_lost 0 contexts_lost 0 truncated 1

256 bytes in 4 allocations from stack
\tleak_at_depth+0x34 [kernel]
\tdebug_alloc_write+0x12 [kernel]
\tage ms min 12 avg 530 max 980, marks 2, contexts pid 12 sh, pid 13 sh
\tuser stack of pid 12 sh and 1 more, 192 bytes in 3 allocations, build id 0a1b
\t\t0x401001 [/bin/sh]
\t0xffff800001234000 size 64 age 980 mark 2 cpu 0 pid 12 sh
\t… 3 more

64 bytes in 1 allocations from stack
\tthe stack was not recorded
\tage ms min 2000 avg 2000 max 2000, marks 1, contexts irq timer
\t0xffff800001234040 size 64 age 2000 mark 1 cpu 0 irq timer
"""


def test_the_text_of_a_trace(read):
    profile = read(TRACE.format(seen=5))
    found = {(key.process, key.mark, key.age, len(key.frames), len(key.user_frames)): amount for key, amount in profile.amounts.items()}
    assert found == {("", 2, "below 1 s", 2, 1): Amount(3, 192), ("", 2, "below 1 s", 2, 0): Amount(1, 64),
                     ("irq timer", 1, "1 to 10 s", 0, 0): Amount(1, 64)}
    assert profile.incomplete == ["debug_64: 1 stacks are cut off at the depth of the trace"]


def test_the_text_of_references(read):
    text = ("kmemtrace ref.chan state running objsize 0 depth 32 mark 0\n"
            "seen 2 recorded 2 dropped 0 filtered 0 freed 0 cleared 0 live 2 bytes 0 untracked 1 unmatched 0 stacks 1 stacks_lost 0 contexts_lost 0 truncated 0\n"
            "\n2 references from stack\n\tfd_dup2+0x200 [kernel]\n\tage ms min 1 avg 1 max 1, marks 0, contexts pid 2 sh\n"
            "\treference to 0xffff80000058fbb0 at +0x28 of fd_table 0xffff8000005b1108\n"
            "\t0xffff80000058fbb0 age 1 mark 0 cpu 0 pid 2 sh\n\t0xffff80000058fbb0 age 1 mark 0 cpu 0 pid 2 sh\n")
    key, amount = only_key(read(text))
    assert (key.source, key.process, amount) == ("ref.chan", "pid 2 sh", Amount(2, 0))


LEAK = {"by": "stack", "name": "leaky", "bytes": 2880, "objects": 15, "stack": ["leaky_open", "sys_open"], "kept_by": [],
        "lines": ["kern/drivers/dev/debug.cc:68", ""], "marks": [0, 1]}


def test_a_report_of_the_leak_test(read):
    """The report of each of two commands has the same stack three times: as a leak, as a growth, and
    with unreachable objects. The stack counts once for each command."""
    command = {"command": "leakdemo leak 3", "leaks": [LEAK], "growths": [{"name": "leaky", "objects": 3, "alive": [LEAK]}],
               "unreachable": [{"name": "leaky", "objects": 15, "bytes": 2880, "stack": LEAK["stack"], "lines": LEAK["lines"]}], "doubts": ["a doubt"]}
    profile = read(json.dumps({"commands": [command, command]}))
    key, amount = only_key(profile)
    assert amount == Amount(30, 5760)
    assert (key.frames[0].function, key.frames[0].file, key.frames[0].line) == ("leaky_open", "kern/drivers/dev/debug.cc", 68)
    assert profile.incomplete == ["leakdemo leak 3: a doubt"] * 2


@pytest.mark.parametrize("wrong", ('{"commands": 7}', '{"commands": [{}]}', '{"commands": [7]}', '{"commands": [{"command": "x", "leaks": [{"name": 1}]}]}',
                                   '{"commands": [' + "[" * 100_000, '{"commands": [{"command": "x", "leaks": [' + json.dumps(LEAK | {"bytes": 1e400}) + "]}]}"))
def test_json_that_is_something_else(read, wrong):
    with pytest.raises(ReportError, match="not a whole report of the leak test"):
        read(wrong)


MEMLEAK = """Attaching to kernel allocators, Ctrl+C to quit.
[01:03:02] Top 1 stacks with {what} allocations:
\t999 bytes in 9 allocations from stack
\t\told+0x22 [kernel]
Left out: dropped 0, filtered 0, untracked 502, further_stacks 0; traces: 48 of memleak, 0 of others
[01:03:04] Top 2 stacks with {what} allocations:
\taddr = 4010 size = 20
\t20 bytes in 1 allocations from stack
\t\tmain+0x1e [alloctest]
\t-576 bytes in -3 allocations from stack
\t\tleaky_open+0x22 [kernel]
\t\tmain+0x10 [leakdemo]
Left out: dropped 2, filtered 0, untracked 502, stacks_lost 0, further_stacks 3 (96 B in 2); traces: 48 of memleak, 0 of others
"""


def test_memleak(read):
    """memleak prints a report at each interval. scripts/report uses only the last report of
    outstanding allocations. It adds up all reports of changed allocations."""
    profile = read(MEMLEAK.format(what="outstanding"))
    found = {tuple(frame.function for frame in (*key.frames, *key.user_frames)): amount for key, amount in profile.amounts.items()}
    assert found == {("main",): Amount(1, 20), ("leaky_open", "main"): Amount(-3, -576)}
    assert profile.incomplete == ["2 dropped", "3 further stacks, 96 B in 2, which memleak did not print (-T)"]
    assert read(MEMLEAK.format(what="changed outstanding")).total() == Amount(7, 443)


STACKCOUNT = """Tracing 1 functions for "pipe_create"... Hit Ctrl-C to end.
^C
  pipe_create
  system_call_entry
  pipe
    sh [2]
    1

21:53:27
  ffffffff801173a5 pipe_create+0x5
    --
  401162           main+0x162
    sh [2]
    4

Lost: 3 calls not counted
Detaching...
"""


def test_stackcount(read):
    """Between the kernel's stack and the program's stack there may be a line "--". The counts of
    several summaries are added up."""
    profile = read(STACKCOUNT)
    found = [([frame.function for frame in key.frames], [frame.function for frame in key.user_frames], key.process, amount.objects)
             for key, amount in profile.amounts.items()]
    assert found == [(["pipe_create", "system_call_entry"], ["pipe"], "pid 2 sh", 1), (["pipe_create"], ["main"], "pid 2 sh", 4)]
    assert profile.incomplete == ["3 calls not counted"]


def test_folded_stacks(read):
    key, amount = only_key(read("sh;main;sys pipe2;pipe_create 19\n"))
    assert ([frame.function for frame in key.frames], amount) == (["pipe_create", "sys pipe2", "main", "sh"], Amount(0, 19))


@pytest.mark.parametrize("text", (TRACE.format(seen=5), json.dumps({"commands": [{"command": "x", "leaks": [LEAK]}]}), MEMLEAK.format(what="outstanding"),
                                  STACKCOUNT, "main;a 12\nmain;b 13\n"), ids=("trace", "leaktest", "memleak", "stackcount", "folded"))
def test_each_length_cut(read, text):
    """scripts/report refuses a cut file, with two exceptions. First, only white space may be missing
    at the end. Second, the remaining part may be a complete file: folded stacks may end after any
    line, and the output of memleak may end after any report."""
    whole, data = read(text), text.encode()
    for length in range(len(data)):
        try:
            part = read(data[:length])
        except ReportError:
            continue
        is_whole = text.startswith("main") and data[:length].endswith(b"\n") or text == STACKCOUNT and length == len(data) - 1 \
            or text.startswith("Attaching") and data[:length] == data[:data.index(b"[01:03:04]")]
        assert is_whole or part.amounts == whole.amounts and length >= len(data.rstrip()), data[:length]


def test_each_byte_of_a_text_changed(read):
    for text in (TRACE.format(seen=5), MEMLEAK.format(what="outstanding"), STACKCOUNT):
        data = text.encode()
        for at in range(len(data)):
            for byte in (0, 0xFF, data[at] ^ 1, ord("9")):
                try:
                    read(data[:at] + bytes([byte]) + data[at + 1:])
                except ReportError:
                    pass


def test_the_kernel_must_be_that_of_the_dump(tmp_path, monkeypatch, read):
    lookup = fakes.lookup(tmp_path, monkeypatch)
    lookup.kernel_file = "README.md"
    path = tmp_path / "dump"
    path.write_bytes(dump(source("pipe", records(1))))
    with pytest.raises(ReportError, match="README.md: not a kernel"):
        reading.read(path, lookup)
