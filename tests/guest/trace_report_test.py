"""Tests the kernel's report of the stacks that hold most memory. The kernel prints this report in a panic, and before it kills a process for lack of
memory."""
import re

import pytest

from guest import guest

pytestmark = pytest.mark.cpus(1)

TRACE_AND_LEAK = """
echo start > '#mem/kmemtrace/debug_1024'; echo start > '#mem/kmemtrace/debug_64'
echo 'leak debug_64 500 depth=2' > #debug/alloc
echo 'leak debug_1024 300 depth=5' > #debug/alloc
"""
GROUP = re.compile(r"  (\d+) bytes in (\d+) allocations of (\S+) from stack$")


def groups_in(log):
    """Returns [(bytes, allocations, cache, [function, …])] of the report in a log, whose lines may begin with time stamps."""
    groups = []
    for line in log.splitlines():
        line = re.sub(r"^\[ *\d+\.\d+\] ", "", line.rstrip())
        if found := GROUP.match(line):
            groups.append((int(found[1]), int(found[2]), found[3], []))
        elif groups and (frame := re.match(r"    (\S+)\+0x[0-9a-f]+ \[kernel\]$", line)):
            groups[-1][3].append(frame[1])
    return groups


@pytest.mark.cpus(4)
def test_panic():
    result = guest(TRACE_AND_LEAK + "echo panic > #debug/ctl", log=False)
    assert result.status == 134, result
    screen = result.stderr[result.stderr.index("kernel panic:"):]
    assert "in 800 allocations are live in 2 traces" in screen
    first, second = groups_in(screen)
    assert first[:3] == (300 * 1024, 300, "debug_1024")
    assert second[:3] == (500 * 64, 500, "debug_64")
    assert (first[3][:5], second[3][:2]) == (["leak_at_depth"] * 5, ["leak_at_depth"] * 2)
    assert "debug_alloc_write" in first[3]
    assert "not known" not in screen


@pytest.mark.cpus(4)
def test_panic_while_others_are_in_the_tracer():
    """In a panic the other CPUs stop at any instruction of the tracer, with any locks held. The report is complete nevertheless, because it reads the
    tables without locks."""
    churn = "while :; do echo 'churn {} 1000' > #debug/alloc; done &"
    stat = "while :; do echo mark > '#mem/kmemtrace/ctl'; cat '#mem/kmemstat' '#mem/tracedump' > /dev/null; done &"
    for _ in range(5):
        result = guest("echo start > '#mem/kmemtrace/ctl'; echo 'leak debug_1024 5000 depth=5' > #debug/alloc;" + churn.format("debug_64") +
                       churn.format("debug_1024") + stat + stat + "sleep 0.3; echo panic > #debug/ctl", log=False)
        assert result.status == 134, result
        assert "again, while showing the first" not in result.stderr
        assert re.search(r" are live in \d+ traces; most have:", result.stderr), result
        leaked = [group for group in groups_in(result.stderr) if group[3][:5] == ["leak_at_depth"] * 5]
        assert "not known" not in result.stderr
        [[size, count, cache, _]] = leaked
        # If a CPU was stopped while it changed a record, that record may be wrong, and the report says so.
        assert (size, count, cache) == (1024 * 5000, 5000, "debug_1024") or "were just being changed" in result.stderr and abs(count - 5000) <= 1


def test_panic_with_nothing_traced():
    result = guest("echo panic > #debug/ctl", log=False)
    assert result.status == 134, result
    assert "allocations" not in result.stderr


def test_out_of_memory():
    """A cache leaks until the kernel kills a process for lack of memory. The log names the cache."""
    result = guest(TRACE_AND_LEAK + """
for n in 10000 1000 100 10 1; do
  while echo "leak debug_1024 $n depth=3" > #debug/alloc; do :; done 2> /dev/null
done
text=x
while :; do text="$text$text"; done
""", "--mem", "48M", "--timeout", "100", log=False)
    assert result.status in (2, 128 + 9), result
    assert "out of memory at 0x" in result.stderr
    reports = [float(when) for when in re.findall(r"\[ *(\d+\.\d+)\] .* are live in 2 traces; most have:", result.stderr)]
    assert reports, result
    assert all(later - earlier >= 9 for earlier, later in zip(reports, reports[1:])), result
    groups = groups_in(result.stderr)
    assert (groups[0][2], groups[0][3][:3]) == ("debug_1024", ["leak_at_depth"] * 3), result
    assert groups[0][0] > 20 << 20
    assert "debug_alloc_write" in groups[0][3]
