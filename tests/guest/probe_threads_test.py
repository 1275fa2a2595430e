"""Probes on programs with threads: several CPUs hit breakpoints at once, and each return is paired with the call by the same thread."""
import re
from collections import Counter

import pytest

from guest import checked, dumps_in, guest
from memleak_process_test import PRELUDE
from memleak_test import reports_in
from probed import ENDS, Counts, Program, check_nothing_left
from stackcount_test import PRELUDE as STACKCOUNT
from stackcount_test import Output
from stele.tracedump import TraceDump

pytestmark = pytest.mark.cpus(4)

THREADS, ROUNDS = 8, 300
PROGRAM = Program("probethreads")
RULES = "\n".join(f"alloc {PROGRAM.at(name, True)} size={size}" for name, size in
                  [("threads_make", 1), ("threads_make_both", 1), ("threads_make_and_end", 1), ("threads_make_and_wait", 1),
                   ("threads_make_and_fork", 1), ("threads_resize", "2 old=1")]) + f"\nfree {PROGRAM.at('threads_drop')} address=1"


def session(folder, commands, work):
    """Runs the shell commands `work` during a session with the probe commands `commands`. Returns (dump of the objects that are outstanding at the
    end, Counts, output)."""
    (folder / "commands").write_text(commands + "\n")
    output = checked(f"""exec 3<>#probe/clone; read n <&3
cat /host/commands >&3 && echo start >&3 || exit 90
{work}
cat "#probe/$n/outstanding" > /host/dump; cat "#probe/$n/counts" > /host/counts; exec 3>&-{ENDS}""", "--share", str(folder))
    check_nothing_left(output)
    dump = TraceDump.load(folder / "dump")
    for source in dump.sources:
        assert source.broken_identities() == []
        assert {name: source.counters[name] for name in ("dropped", "stacks_lost", "contexts_lost", "truncated")} == dict.fromkeys(
            ("dropped", "stacks_lost", "contexts_lost", "truncated"), 0)
    return dump, Counts((folder / "counts").read_text()), output


def sizes(dump):
    [source] = dump.sources
    return Counter(record.size for record in source.records)


def function_of(address):
    return next((name for name, (start, size) in PROGRAM.functions.items() if start < address <= start + size), None)


def test_calls_by_stack(tmp_path):
    _, counts, _ = session(tmp_path, f"count {PROGRAM.at('threads_outer')} {PROGRAM.at('threads_leaf')}\nstacks user", "probethreads calls")
    assert counts.header["hits"] == counts.header["counted"] == 3 * THREADS * ROUNDS
    assert sorted(row["count"] for row in counts.rows) == [THREADS * ROUNDS] * 3, "two places that call the leaf, one that calls the other"


def test_calls_by_process_and_thread(tmp_path):
    """With `processes`, a row counts the calls of all threads of a process; with `threads`, a row counts the calls of one thread. The main thread
    has no row, since it does not call the function."""
    count = f"count {PROGRAM.at('threads_outer')}\nstacks user"
    _, counts, _ = session(tmp_path, f"{count}\nprocesses", "probethreads calls; probethreads calls")
    assert [row["count"] for row in counts.rows] == [THREADS * ROUNDS] * 2
    assert len({row["pid"] for row in counts.rows}) == 2
    assert all("thread" not in row for row in counts.rows)
    _, counts, _ = session(tmp_path, f"{count}\nthreads", "probethreads calls")
    assert [row["count"] for row in counts.rows] == [ROUNDS] * THREADS
    assert len({row["thread"] for row in counts.rows}) == THREADS
    assert len({row["pid"] for row in counts.rows}) == 1


def test_events_name_the_thread(tmp_path):
    (tmp_path / "commands").write_text(f"event {PROGRAM.at('threads_outer')} {PROGRAM.at('threads_leaf', True)}\n")
    output = checked("""exec 3<>#probe/clone; read n <&3
cat /host/commands >&3; cat "#probe/$n/events" > /tmp/events & reader=$!
echo start >&3; probethreads calls; echo stop >&3; wait $reader; cat /tmp/events; exec 3>&-""", "--share", str(tmp_path))
    events = re.findall(r"(?m)^[\d.]+ cpu \d pid \d+ thread (\d+) name probethreads (call|return) (\w+)", output)
    lost = sum(map(int, re.findall(r"(?m)^lost (\d+)$", output)))
    assert len(events) + lost == 5 * THREADS * ROUNDS
    if lost == 0:
        assert set(Counter(events).values()) == {ROUNDS, 2 * ROUNDS}
        assert len({thread for thread, _, _ in events}) == THREADS


def test_outstanding_by_stack(tmp_path):
    """Objects that one thread makes and another drops are not outstanding. Objects that no thread drops are outstanding, with the stack and the
    thread that made them."""
    dump, counts, _ = session(tmp_path, RULES, "probethreads leaks")
    assert sizes(dump) == {100: THREADS * ROUNDS}
    by = Counter()
    for record in dump.sources[0].records:
        frames = [function_of(frame) for frame in dump.stacks[record.stack].frames]
        by[tuple(frames[:2])] += record.size
    half = THREADS // 2 * ROUNDS * 100
    assert by == {("threads_make", "leak_even"): half, ("threads_make_both", "leak_odd"): half}
    assert counts.header["abandoned"] == dump.sources[0].counters["unmatched"] == 0
    threads = Counter(dump.contexts[record.context].thread for record in dump.sources[0].records)
    assert list(threads.values()) == [ROUNDS] * THREADS
    assert 0 not in threads


def test_a_thread_that_ends_within_a_call(tmp_path):
    dump, counts, _ = session(tmp_path, RULES, "probethreads ends")
    assert sizes(dump) == {10: 50}
    assert counts.header["abandoned"] == 50


def test_an_address_that_another_thread_gets_from_a_realloc(tmp_path):
    dump, _, _ = session(tmp_path, RULES, "probethreads resizes")
    assert sizes(dump) == {200: 1, 300: 1}
    assert next(record for record in dump.sources[0].records if record.size == 300).object == 0x70000000


def test_a_realloc_that_fails_or_does_not_return(tmp_path):
    dump, counts, _ = session(tmp_path, RULES, "probethreads no-resize")
    assert (sizes(dump), counts.header["abandoned"]) == ({100: 1}, 0)
    dump, counts, _ = session(tmp_path, RULES, "probethreads end-in-resize")
    assert (sizes(dump), counts.header["abandoned"]) == ({100: 1}, 1)


def test_fork_within_a_call(tmp_path):
    """A thread forks inside a probed call. The child does not inherit this call: when the child ends, no call counts as abandoned. The child's later
    calls are recorded as calls of another process."""
    dump, counts, _ = session(tmp_path, RULES, "probethreads forks")
    left = sizes(dump)
    assert sum(left.values()) == 2 * 4 * THREADS and left[1] == 4 * THREADS + 1, "of each parent and of each child one"
    assert counts.header["abandoned"] == 0


def test_exec_by_a_thread(tmp_path):
    dump, counts, _ = session(tmp_path, RULES, "probethreads exec")
    assert sizes(dump) == {}
    assert dump.sources[0].counters["cleared"] == 1
    assert counts.header["abandoned"] == THREADS - 1


def test_killed_within_calls(tmp_path):
    """When a process is killed while its threads are inside probed calls, these calls count as abandoned. The calls of the next process are
    recorded correctly."""
    work = """mkfifo /tmp/line; : > /tmp/said; probethreads inside < /tmp/line > /tmp/said & exec 4> /tmp/line
until grep -q inside /tmp/said; do :; done; kill -9 $!; wait $! 2> /dev/null; exec 4>&-; probethreads leaks"""
    dump, counts, _ = session(tmp_path, RULES, work)
    assert sizes(dump) == {100: THREADS * ROUNDS}
    assert counts.header["abandoned"] == THREADS


def test_of_one_process(tmp_path):
    """A session for one PID filters out the calls that the threads of another process make."""
    work = """mkfifo /tmp/line; : > /tmp/said; probethreads inside < /tmp/line > /tmp/said & exec 4> /tmp/line
until grep -q inside /tmp/said; do :; done; echo pid $! > /host/pid"""
    (tmp_path / "commands").write_text(RULES)
    output = checked(f"""{work}; exec 3<>#probe/clone; read n <&3
{{ cat /host/commands; echo; cat /host/pid; echo start; }} > /tmp/all; cat /tmp/all >&3 || exit 90
probethreads leaks; echo >&4; wait $!
cat "#probe/$n/outstanding" > /host/dump; cat "#probe/$n/counts" > /host/counts; exec 3>&- 4>&-{ENDS}""", "--share", str(tmp_path))
    check_nothing_left(output)
    dump = TraceDump.load(tmp_path / "dump")
    assert sizes(dump) == {}, "its calls began before"
    assert Counts((tmp_path / "counts").read_text()).header["filtered"] >= THREADS * ROUNDS


def test_memory(tmp_path):
    """`watch memory` is right when one thread unmaps a range and another thread then maps the same addresses."""
    dump, _, _ = session(tmp_path, "watch memory", "probethreads maps")
    assert sizes(dump) == {5000: THREADS * 3}
    assert dump.sources[0].counters["unmatched"] == 0
    assert len({record.object for record in dump.sources[0].records}) == THREADS * 3


def test_traces_of_the_kernel_name_the_thread(tmp_path):
    output = checked("""echo start > '#mem/kmemtrace/leaky'; probethreads opens; echo stop > '#mem/kmemtrace/leaky'
cat '#mem/tracedump' > /host/dump; cat '#mem/kmemtrace/leaky'""", "--share", str(tmp_path))
    dump = TraceDump.load(tmp_path / "dump")
    records = dump.source("leaky").records
    by_thread = Counter(dump.contexts[record.context].thread for record in records)
    assert sorted(by_thread.values()) == [5] * (THREADS + 1) and by_thread[0] == 5
    shown = {str(dump.contexts[record.context]) for record in records}
    assert sum(" thread " in name for name in shown) == THREADS
    lines = set(re.findall(r"cpu \d (pid \d+ (?:thread \d+ )?probethreads)$", output, re.M))
    assert lines == shown
    [traced] = dumps_in(output)
    groups = traced.groups
    assert sum(group.objects for group in groups) == 5 * (THREADS + 1)
    # A record has the user stack of the calling thread. The stack of the main thread differs from the stack of the other threads.
    owners = [(stack.owner, stack.objects) for group in groups for stack in group.user_stacks]
    assert sorted(objects for _, objects in owners) == [5, 5 * THREADS]
    assert {bool(re.search(r"thread \d+ .* and 7 more$", owner)) for owner, _ in owners} == {True, False}


def test_memleak_of_threads():
    """Eight threads leak 30,000 bytes each through malloc: 240,000 bytes from one stack."""
    for kind in ("malloc", "realloc", "new"):
        output = checked(f"{PRELUDE}\nbegin -o 0 1 -- --threads 8 {kind}; go; next_reports; finish")
        report = reports_in(output)[0][-1]
        assert report.by(f"leak_{kind}") == (240_000, 240), output
        assert len([group for group in report.groups if group[2][0].startswith("leak_")]) == 1
        assert {report.left_out[name] for name in ("dropped", "stacks_lost", "contexts_lost", "truncated", "filtered")} == {0}


def test_stackcount_of_threads():
    """The calls of all threads of a process are counted together, by stack."""
    result = guest(STACKCOUNT + "begin -P /bin/probethreads:threads_outer; probethreads calls; finish INT")
    assert result.stderr == "status 0\n", result
    output = Output(result.stdout)
    assert [(stack.frames[0], stack.process, stack.count) for stack in output.stacks] == [("threads_outer", "probethreads", THREADS * ROUNDS)]
    assert output.lost == []
