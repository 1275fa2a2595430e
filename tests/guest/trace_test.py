"""Uses the tracer from the shell, through #mem and #debug. The dumps have the planted leaks with their stacks and processes."""
import pathlib
import re
import subprocess
import tempfile

import pytest

from guest import BUILD, checked, ctl_in, dumps_in, functions_of, guest, live_counts
from stele.source_lines import build_id
from stele.tracedump import Symbols, TraceDump

pytestmark = pytest.mark.cpus(1)

LEAK = ('echo start > #mem/kmemtrace/{cache}; echo "leak {cache} {n} {options}" > #debug/alloc; '
        'echo stop > #mem/kmemtrace/{cache}; cat #mem/kmemtrace/{cache}; '
        'echo "free {cache} {n}" > #debug/alloc; cat #mem/kmemtrace/{cache}')


def check(cache, size, n, options, context):
    output = checked(LEAK.format(cache=cache, n=n, options=options))
    held, freed = dumps_in(output)
    for dump in (held, freed):
        assert dump.broken_identities() == [], output
        assert dump.lost() == {}, output
    [group] = held.groups
    assert (held.counters["live"], held.counters["bytes"]) == (n, n * size)
    assert (group.objects, group.bytes) == (n, n * size)
    names = [frame.partition("+")[0] for frame in group.frames]
    assert names[:8] == ["leak_at_depth"] * 8, output
    assert names.count("leak_at_depth") == 8
    assert ("debug_interrupt" if "irq" in options else "debug_alloc_write") in names
    assert all(frame.endswith(" [kernel]") for frame in group.frames), output
    assert re.search(context, group.summary)
    # The record of an allocation in an interrupt has no user stack.
    assert [stack.objects for stack in group.user_stacks] == ([] if "irq" in options else [n]), output
    assert (freed.counters["live"], freed.groups) == (0, [])
    assert freed.counters["freed"] == n
    return names


def test_100_objects():
    check("debug_64", 64, 100, "depth=8", r"contexts pid \d+ sh$")


def test_100_objects_from_an_interrupt():
    names = check("debug_64", 64, 100, "depth=8 irq", r"contexts irq \w+$")
    assert "debug_alloc_write" not in names  # the interrupted process does not appear


def test_30000_objects():
    check("debug_64", 64, 30000, "depth=8", r"contexts pid \d+ sh$")


def test_30000_objects_from_an_interrupt():
    check("debug_64", 64, 30000, "depth=8 irq", r"contexts irq \w+$")


def test_cache_with_bufctls():
    check("debug_1024", 1024, 100, "depth=8", r"contexts pid \d+ sh$")


def test_atomic():
    check("debug_64", 64, 100, "depth=8 atomic", r"contexts pid \d+ sh$")


def test_live_count():
    result = guest('cat #mem/kmemstat; echo "leak debug_64 100" > #debug/alloc; cat #mem/kmemstat; '
                   'echo "free debug_64 100" > #debug/alloc; cat #mem/kmemstat')
    tables = live_counts(result.stdout)
    assert [table["debug_64"] for table in tables] == [0, 100, 0], result


def test_live_count_of_objects_in_magazines():
    result = guest('echo "churn debug_64 1000" > #debug/alloc; grep debug_64 #mem/kmemstat')
    words = result.stdout.split()
    assert words[5:8] == ["0", "1000", "1000"], result


def test_estimates():
    """100,000 objects of 64 bytes, with one sampling point in 4 KiB on average, give about 1,550 records. The standard deviation is 40 records."""
    result = guest("""
t='#mem/kmemtrace/debug_64'
echo start sample=4K > "$t"
echo 'leak debug_64 100000' > #debug/alloc
echo "== held"; cat "$t"
echo 'free debug_64 75000' > #debug/alloc
echo "== ctl"; cat '#mem/kmemtrace/ctl'
echo stop > "$t"; echo start sample=8K > "$t" || echo refused; printf 'reset\nstart\nstop\n' > "$t"
echo "== off"; cat "$t"
echo 'free debug_64 25000' > #debug/alloc; echo reset > "$t"
""")
    assert result.status == 0, result
    section = dict(part.split("\n", 1) for part in result.stdout.split("== ")[1:])
    [held] = dumps_in(section["held"])
    assert (held.header["sample"], held.counters["seen"]) == ("4096", 100000)
    assert (held.lost(), held.broken_identities()) == ({}, [])
    assert held.counters["untracked"] == held.counters["filtered"]
    assert held.counters["recorded"] == pytest.approx(1550, abs=250)
    assert held.counters["estimated_bytes"] == pytest.approx(6400000, abs=1000000)
    assert held.counters["estimated_objects"] == pytest.approx(100000, abs=16000)
    [group] = held.groups
    assert group.estimated == (held.counters["estimated_bytes"], held.counters["estimated_objects"])
    [trace] = ctl_in(section["ctl"])[1]
    assert trace.counters["estimated_objects"] == pytest.approx(25000, abs=8000)
    assert "debug_64 has records with another sampling rate: reset it first" in result.stderr
    assert "refused" in section["ctl"]
    [off] = dumps_in(section["off"])
    assert "sample" not in off.header


def test_a_leak_is_traced_to_the_program():
    result = guest("echo start > #mem/kmemtrace/leaky; leakdemo leak 3; leakdemo leak 4; echo stop > #mem/kmemtrace/leaky; "
                   "cat #mem/kmemtrace/leaky")
    [dump] = dumps_in(result.stdout)
    assert (dump.counters["live"], dump.lost(), dump.broken_identities()) == (7, {}, []), result
    [group] = dump.groups
    assert re.search(r"contexts pid \d+ leakdemo, pid \d+ leakdemo$", group.summary)
    [stack] = group.user_stacks  # both processes have the same stack
    assert re.search(r"^pid \d+ leakdemo and 1 more$", stack.owner)
    assert (stack.objects, stack.bytes) == (7, group.bytes)
    assert stack.build_id == build_id(BUILD / "user/bin/leakdemo")
    assert functions_of(stack.frames, "leakdemo") == ["open", "use", "main", "__stele_start", "_start"], result


def test_children_and_their_programs_are_told_apart():
    result = guest("echo start > #mem/kmemtrace/debug_64; (echo 'leak debug_64 1' > #debug/alloc); "
                   "echo 'leak debug_64 1' > #debug/alloc; echo 'leak debug_64 1' | dd of='#debug/alloc' 2> /dev/null; "
                   "cat #mem/kmemtrace/debug_64")
    [dump] = dumps_in(result.stdout)
    stacks = [stack for group in dump.groups for stack in group.user_stacks]
    assert sum(stack.objects for stack in stacks) == 3, result
    [dd] = [stack for stack in stacks if stack.owner.endswith(" dd")]
    assert all(frame.endswith(" [/bin/dd]") for frame in dd.frames), result
    assert dd.build_id == build_id(BUILD / "user/bin/busybox")
    shells = [stack for stack in stacks if stack is not dd]
    assert {stack.build_id for stack in shells} == {build_id(BUILD / "user/bin/dash")}, result
    # The user stack of the subshell has the frames that the shell had before the fork.
    assert ({name for stack in shells for name in functions_of([f.replace("/bin/sh", "/bin/dash") for f in stack.frames], "dash")}
            & {"main", "_start"}) == {"main", "_start"}


def test_a_page_that_a_fault_brought_is_traced_to_the_program():
    """A page that a page fault allocated has the user stack of the process. The test reads the binary dump, which has all user stacks of a group."""
    with tempfile.TemporaryDirectory() as folder:
        result = guest("echo start > #mem/kmemtrace/page; sleep 100 & sleep 0.5; cat #mem/tracedump > /host/dump; kill $!", "--share", folder)
        dump = TraceDump.load(pathlib.Path(folder) / "dump")
    source, symbols = dump.source("page"), Symbols(BUILD / "stele.elf")
    counters = source.counters
    assert (counters["stacks_lost"], counters["contexts_lost"], source.broken_identities()) == (0, 0, []), result
    numbers = {record.user_stack for record in source.records
               if dump.contexts[record.context].name == "sleep"
               and any(symbols.frame(frame).startswith("page_fault+") for frame in dump.stacks[record.stack].frames)}
    stacks = [dump.stacks[number] for number in numbers]
    names = [functions_of([f"{frame:#x} [/bin/busybox]" for frame in stack.frames], "busybox") for stack in stacks]
    assert [chain for chain in names if chain[-1:] == ["_start"] and "main" in chain], (names, result)


def test_the_program_is_the_file_that_runs():
    """For a script, records name the interpreter's file. A program with a broken build id still runs, and its records have no build id."""
    notes = subprocess.run(["readelf", "-lW", str(BUILD / "user/bin/leakdemo")], capture_output=True, text=True, check=True).stdout
    offset = next(int(line.split()[1], 16) for line in notes.splitlines() if line.split()[:1] == ["NOTE"])
    output = checked(f"""
echo start > #mem/kmemtrace/leaky
printf '#!/bin/sh\nleakdemo leak 1\n: < "#debug/leaky/leak"\n' > /tmp/script; chmod +x /tmp/script; /tmp/script
for size in '\\377\\377\\377\\377' '\\003\\0\\0\\0' '\\377\\377\\377\\177'; do
  cp /bin/leakdemo /tmp/demo; printf $size | dd of=/tmp/demo bs=1 seek={offset} conv=notrunc 2> /dev/null; /tmp/demo leak 1
done
cat #mem/kmemtrace/leaky""")
    [dump] = dumps_in(output)
    [group] = dump.groups
    found = {stack.owner.split()[2]: stack for stack in group.user_stacks}
    assert sorted((name, stack.objects) for name, stack in found.items()) == [("demo", 3), ("leakdemo", 1), ("script", 1)], output
    assert (found["script"].build_id, found["demo"].build_id) == (build_id(BUILD / "user/bin/dash"), "")
    assert functions_of(found["leakdemo"].frames, "leakdemo")[-1] == "_start"
    for name, path in (("script", "/bin/sh"), ("demo", "/tmp/demo"), ("leakdemo", "/bin/leakdemo")):
        assert {frame.split()[1] for frame in found[name].frames} == {f"[{path}]"}


def test_broken_stacks_do_no_harm():
    output = checked("echo start > #mem/kmemtrace/debug_64; proctest frames; echo stop > #mem/kmemtrace/debug_64; "
                     "cat #mem/kmemtrace/debug_64")
    number, _, text = output.partition("\n")
    [dump] = dumps_in(text)
    assert (dump.counters["live"], dump.lost(), dump.broken_identities()) == (int(number), {}, []), output
    [group] = dump.groups
    frames = {}
    for stack in group.user_stacks:
        assert functions_of(stack.frames[:1], "proctest") == ["call_with_frame"], output
        callers = tuple(int(frame.split()[0], 16) for frame in stack.frames[1:])
        assert callers not in frames
        frames[callers] = stack.objects
    chain = tuple(range(0x1000, 0x100F))
    assert frames == {(): int(number) - 9, chain: 4, chain[:-1]: 1, (0x2000,): 1, (0x3000, 0x3001): 1, (0x4000,): 1,
                              (0x4001,): 1}, output
    # One system call made three of the allocations with `chain`. These three had more callers than a record can have.
    assert dump.counters["truncated"] == 3, output


def test_frames_that_are_remembered_are_those_that_are_there():
    output = checked("echo start > #mem/kmemtrace/debug_64; proctest knownframes; cat #mem/kmemtrace/debug_64", "--smp", "1")
    [dump] = dumps_in(output)
    assert (dump.counters["live"], dump.lost(), dump.broken_identities()) == (9, {}, []), output
    frames = {tuple(int(frame.split()[0], 16) for frame in stack.frames[1:]): stack.objects
              for group in dump.groups for stack in group.user_stacks}
    known = tuple(range(0x5000, 0x5004))
    assert frames == {(*known, 0x5004): 3, (*known, 0x5104): 1, (*known, 0x5104, 0x5005): 1, (0x6000, 0x6001): 3, (0x6000,): 1}, output


def test_stacks_and_contexts_that_do_not_fit_are_counted():
    """When records fill all trace memory, lost stacks and contexts are counted. The memory of freed records is used for new records, but not for
    stacks and contexts."""
    output = checked("""
t='#mem/kmemtrace/debug_64'
printf 'limit 1M\n' > '#mem/kmemtrace/ctl'; echo start depth=64 > "$t"
echo 'leak debug_64 1' > #debug/alloc
echo 'leak debug_64 100000' > #debug/alloc
echo 'free debug_64 2000' > #debug/alloc
echo "== full"; cat "$t"
i=56; while [ $i -gt 1 ]; do echo "leak debug_64 1 depth=$i" > #debug/alloc; i=$((i - 1)); done
echo "== stacks"; cat "$t"
echo 'leak debug_64 1' | dd of='#debug/alloc' 2> /dev/null
echo "== user stack"; cat "$t"
i=0; while [ $i -lt 220 ]; do i=$((i + 1)); (echo 'leak debug_64 1' > #debug/alloc); done
echo "== contexts"; cat "$t"
echo 'free debug_64 98277' > #debug/alloc
echo "== freed"; cat "$t"
printf 'stop\nreset\n' > "$t"; cat '#mem/kmemtrace/ctl'
""", "--timeout", "120")
    full, stacks, user_stack, contexts, freed = [dumps_in(part)[0] for part in output.split("== ")[1:]]
    for dump in (full, stacks, user_stack, contexts, freed):
        assert dump.broken_identities() == []
    assert (full.counters["stacks_lost"], full.counters["contexts_lost"]) == (0, 0)
    assert full.counters["dropped"] > 10000
    lost = stacks.counters["stacks_lost"]
    assert lost > 10
    assert [group.objects for group in stacks.groups if group.frames == ["the stack was not recorded"]] == [lost]
    # The kernel stack of the allocation by dd is already stored, and there is still room for the context. Only the user stack is lost.
    assert (user_stack.counters["stacks_lost"], user_stack.counters["contexts_lost"]) == (lost + 1, 0)
    assert re.search(r"(?m)contexts .*pid \d+ dd$", "\n".join(group.summary for group in user_stack.groups))
    assert not [stack for group in user_stack.groups for stack in group.user_stacks if stack.owner.endswith(" dd")]
    assert contexts.counters["contexts_lost"] > 10
    assert contexts.counters["dropped"] == full.counters["dropped"]
    assert freed.counters["live"] == 0
    assert ctl_in(output)[0]["used"] == 0


def test_100000_leaks_in_64K():
    """With a limit of 64 KiB, a leak of 100,000 objects fills trace memory. Every dropped record is counted, the system goes on, and at the end no
    trace memory is in use."""
    result = guest("""
ctl='#mem/kmemtrace/ctl'
t='#mem/kmemtrace/debug_64'
section() { echo "== $1"; }
section before; cat "$ctl"
echo 'limit 64K' > "$ctl"; echo start > "$t"
echo 'leak debug_64 100000' > #debug/alloc
section full; cat "$ctl"
section filtered; printf 'stop\nstart min=100\n' > "$t"; echo 'leak debug_64 50' > #debug/alloc; cat "$t"
section healthy; ls /bin | head -n 1000 | wc -l; (echo subshell)
section freed; echo 'free debug_64 100050' > #debug/alloc; cat "$t"
section after; printf 'stop\nreset\n' > "$t"; cat "$ctl"
section larger; printf 'limit 4M\nstart\n' > "$ctl"; printf 'stop\nreset\n' > "$ctl"; cat "$ctl"
section errors; for limit in '' 0 4095 x 1M1 2000G '1M 2M'; do echo "limit $limit" > "$ctl" || echo refused; done 2>&1
echo 'limit 1M' > "$t" || echo refused
cat "$ctl"
""", "--timeout", "120")
    assert result.status == 0, result
    section = {}
    for part in result.stdout.split("== ")[1:]:
        name, _, section[name] = part.partition("\n")
    memory, traces = ctl_in(section["before"])
    assert (memory["used"], traces) == (0, []), result
    memory, [trace] = ctl_in(section["full"])
    assert memory["limit"] == 65536
    assert memory["used"] <= 65536
    counters = trace.counters
    assert (counters["seen"], counters["filtered"]) == (100000, 0), result
    assert counters["seen"] == counters["recorded"] + counters["dropped"]
    assert counters["recorded"] > 100
    assert counters["dropped"] > 90000
    assert counters["untracked"] == counters["dropped"]
    [dump] = dumps_in(section["filtered"])
    assert dump.broken_identities() == []
    assert (dump.counters["seen"], dump.counters["filtered"]) == (100050, 50)
    count, word = section["healthy"].split()
    assert int(count) > 5
    assert word == "subshell"
    [dump] = dumps_in(section["freed"])
    assert dump.broken_identities() == []
    assert (dump.counters["live"], dump.counters["freed"], dump.counters["unmatched"]) == (0, counters["recorded"], counters["dropped"] + 50)
    empty = {"used": 0, "stacks": 0, "contexts": 0, "untraced": 0, "sweeps": 0, "forgotten": 0}
    assert ctl_in(section["after"]) == ({"limit": 65536} | empty, [])
    assert ctl_in(section["larger"]) == ({"limit": 4 << 20} | empty, [])
    assert section["errors"].count("refused") == 8, result
    assert section["errors"].count("limit takes BYTES from 4096 to 1024G") == 6, result
    assert ctl_in(section["errors"])[0]["limit"] == 4 << 20


@pytest.mark.cpus(4)
@pytest.mark.parametrize("rounds", (1, pytest.param(10, marks=pytest.mark.long)))
def test_start_stop_and_reset_under_load(rounds):
    """Traces of all caches start, stop and are reset while programs run: first each trace separately, then all with one command. At the end no
    trace is left, and the caches have as many live objects as before."""
    output = checked("""
settled() { echo settle > '#mem/kmemtrace/ctl'; cat #mem/kmemstat; }
load() { while [ -e /tmp/load ]; do ls / | cat > /tmp/out.$1; echo "churn debug_64 100" > #debug/alloc; done; }
ctl='#mem/kmemtrace/ctl'
work() {
  rounds=$1 round=0
  shift
  : > /tmp/load
  load 1 & load 2 & load 3 &
  while [ $round -lt $rounds ]; do
    for t in "$@"; do
      [ "$t" = "$ctl" ] || { echo start > "$t" && echo mark > "$t"; } 2>/dev/null
    done
    for t in "$@"; do
      [ "$t" = "$ctl" ] || { cat "$t" > /dev/null; printf 'stop\\nreset\\n' > "$t"; } 2>/dev/null
    done
    round=$((round + 1))
  done
  round=0
  while [ $round -lt $((4 * rounds)) ]; do
    echo start > "$ctl"; echo mark > "$ctl"; echo stop > "$ctl"; echo reset > "$ctl"
    round=$((round + 1))
  done
  rm /tmp/load
  wait
  rm /tmp/out.*
  grep kmemtrace "$ctl"
}
# A first round, because pages of the shell come into the page cache when it first runs these commands.
# The quantum cache page_4096 refuses to be traced.
work 1 '#mem/kmemtrace'/c* '#mem/kmemtrace/page_4096'
settled
""" + f"work {rounds} '#mem/kmemtrace'/*\nsettled\n", "--timeout", "600")
    assert "kmemtrace" not in output
    before, after = live_counts(output)
    # The counts of the allocator's own caches, and of arenas, depend on idle objects as well, so they may differ.
    changed = {cache: (before[cache], after[cache]) for cache in before
               if before[cache] != after[cache] and not cache.startswith(("kmem_", "page", "base", "trace", "kernel_virtual"))}
    assert changed == {}
