"""#mem/unreachable lists lost objects, and no object that can be reached."""
import re
import subprocess

import pytest

from guest import ROOT, guest, sections_of, text
from unreached import FIRST, Lost

GROUP = re.compile(r"^(\d+) bytes in (\d+) objects of (\S+)(?: keeps (\d+) bytes in (\d+) objects)?( from stack)?\n((?:\t.*\n)*)", re.M)


def totals(text):
    """Returns [(objects, bytes, heads)] of each report in the output. docs/unreachable.md defines a head."""
    return [tuple(map(int, match.groups()[:3])) for match in FIRST.finditer(text)]


def groups_in(text):
    """Returns [(name, objects, bytes, objects kept, functions of the stack, lines)] of a report."""
    return [(match[3], int(match[2]), int(match[1]), int(match[5] or 0),
             re.findall(r"^\t(.+)\+0x[0-9a-f]+ \[kernel\]$", match[7], re.M), match[7].splitlines())
            for match in GROUP.finditer(text)]


def assert_found(text, lost, result):
    """`lost` is {cache: lost bytes}. Checks that a report lists objects of each of these caches and of no other cache, and has more than
    70 % of the bytes of all caches together. Some objects may be missing, because a stale word on a stack may point to a lost object."""
    found = {}
    for name, _, bytes_, _, _, lines in groups_in(text):
        found[name] = found.get(name, 0) + bytes_
        for line in lines:  # lost objects to which another lost object points
            if kept := re.match(r"\tkeeps (\d+) bytes in \d+ objects of (\S+)$", line):
                found[kept[2]] = found.get(kept[2], 0) + int(kept[1])
    assert sum(found.values()) == totals(text)[0][1], result
    assert found.keys() == lost.keys() and all(found[name] <= lost[name] for name in lost), result
    assert sum(found.values()) > 0.7 * sum(lost.values()), result


# A subshell loses the objects and ends. If the script's shell lost the objects itself, stale words on
# the shell's kernel stack could still point to the last of them.
LEAKS = """
echo == clean; cat '#mem/unreachable'
(echo start > #mem/kmemtrace/debug_64
echo 'leak debug_64 10 depth=3' > #debug/alloc
echo stop > #mem/kmemtrace/debug_64
echo 'leak debug_64 3 irq' > #debug/alloc
echo 'leak debug_1024 5' > #debug/alloc
echo 'leak kmalloc 3 size=100000' > #debug/alloc
echo 'leak page 2 size=8192' > #debug/alloc
echo 'leak kernel_stack 2' > #debug/alloc
echo 'cache mine 300 4' > #debug/alloc)
leakdemo leak 7
echo == leaks; cat '#mem/unreachable'
echo confirm=3 > #mem/unreachable
echo == again; cat '#mem/unreachable'
echo confirm=1 > #mem/unreachable
echo 'free debug_64 13' > #debug/alloc; echo 'free debug_1024 4' > #debug/alloc; echo 'free page 2' > #debug/alloc
echo 'free kmalloc 3' > #debug/alloc; echo 'free kernel_stack 2' > #debug/alloc; echo 'destroy mine' > #debug/alloc
echo == freed; cat '#mem/unreachable'
echo check > #mem/kmemtrace/debug_64; echo 'leak debug_64 2' > #debug/alloc
echo == checked; cat '#mem/unreachable'
"""


@pytest.mark.parametrize("count", [pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)])
def test_what_is_lost_is_listed_and_nothing_else(count):
    result = guest(LEAKS)
    parts = sections_of(result.stdout)
    assert totals(parts["clean"]) == [(0, 0, 0)] and not groups_in(parts["clean"]), result
    lost = {"debug_64": 13 * 64, "debug_1024": 5 * 1024, "page": 3 * 102400 + 2 * 8192 + 2 * 16384, "mine": 4 * 300, "leaky": 7 * 192}
    for name, looks in (("leaks", "1"), ("again", "3")):
        assert FIRST.search(parts[name]).groups()[4:6] == (looks, "0"), result
        assert_found(parts[name], lost, result)
        # Ten of the lost objects of debug_64 have records. The other three were lost in an interrupt after the trace had stopped.
        known = next(group for group in groups_in(parts[name]) if group[0] == "debug_64" and group[4])
        assert known[1] in (9, 10) and known[4][:4] == ["leak_at_depth"] * 3 + ["debug_alloc_write"], result
        assert "more" in known[5][-1] and re.match(r"\t0xffff8[0-9a-f]{11} size 64$", known[5][-2]), result
    lost = {"debug_1024": 1024, "leaky": 7 * 192}
    assert_found(parts["freed"], lost, result)
    assert_found(parts["checked"], {"debug_64": 2 * 64, **lost}, result)


# Loads that run while #mem/unreachable is read. Together the loads execute all kinds of operations of
# the allocator.
LOADS = {
    "pipelines": "ls -lR / 2> /dev/null | grep a | sort | head -n 3; seq 500 | sort -r | uniq | wc",
    "files": "mkdir /tmp/d; cp /bin/ls /tmp/d; cat /tmp/d/ls | wc; rm -r /tmp/d; cat /host/tracer.md",
    "reaping": "echo reap > '#mem/kmemtrace/ctl'; cat '#mem/kmemstat'; ls /bin",
    "traces": "for word in start mark sweep stop reset; do echo $word > '#mem/kmemtrace/ctl'; ls / | cat; cat '#mem/tracedump'; done",
    "checks": "echo check > '#mem/kmemtrace/ctl'; ls -l / | cat; echo scan > '#mem/kmemtrace/ctl'; echo nocheck > '#mem/kmemtrace/ctl'",
    "probes": "stackcount -D 1 kmem_cache_alloc & stackcount -D 1 'busybox:*' & ls -l / | cat; wait",
    "forks": "(sleep 5 & kill $!; wait $!) 2> /dev/null; sh -c 'ls / | cat'",
}


SHORT = ("pipelines", "reaping", "forks")


@pytest.mark.parametrize("names, count", (
    *(pytest.param(SHORT, n, marks=pytest.mark.cpus(n)) for n in (1, 4)),
    *(pytest.param(LOADS, n, marks=(pytest.mark.cpus(n), pytest.mark.long)) for n in (1, 4, 8))),
    ids=("1", "4", "all-1", "all-4", "all-8"))
def test_nothing_is_lost_while_others_work(names, count):
    rounds = "1" if names is SHORT else "1 2 3 4 5"
    loads = "".join(f"echo == {name}; ( {{ for i in {rounds}; do {load}; done; }} > /dev/null; : > /tmp/done ) & "
                    "until [ -e /tmp/done ]; do cat '#mem/unreachable'; sleep 0.01; done; wait; rm /tmp/done\n" for name, load in LOADS.items() if name in names)
    result = guest(loads + "echo == rest; cat '#mem/unreachable'", "--share", "docs")
    parts = sections_of(result.stdout)
    assert result.status == 0 and set(parts) == {*names, "rest"}, result
    for name, text in parts.items():
        reports = totals(text)
        assert reports and all(report == (0, 0, 0) for report in reports), (name, result)
        assert len(text.splitlines()) == len(reports), (name, result)


@pytest.mark.cpus(1)
def test_readers_and_what_is_written():
    result = guest("""
echo 'leak debug_64 3' > #debug/alloc
echo == nobody; proctest walk 65534 '#mem/unreachable'
echo == pieces; dd bs=7 if='#mem/unreachable' 2> /dev/null
echo == two; cat '#mem/unreachable' > /tmp/a & cat '#mem/unreachable' > /tmp/b; wait; cat /tmp/a /tmp/b
echo == words
for word in confirm confirm= confirm=0 confirm=17 confirm=2x 'confirm=2 3' start; do echo $word > '#mem/unreachable'; done
cat '#mem/unreachable'
echo == killed
echo confirm=16 > '#mem/unreachable'
cat '#mem/unreachable' > /dev/null & sleep 0.05; kill -9 $!; wait $! 2> /dev/null
echo ' confirm=1' > '#mem/unreachable'
cat '#mem/unreachable'
ls -l '#mem' | grep unreachable
""")
    parts = sections_of(result.stdout)
    assert parts["nobody"] == "walked 1\n", result
    for name, reports in (("pieces", 1), ("two", 2), ("words", 1), ("killed", 1)):
        assert totals(parts[name]) == [(3, 192, 3)] * reports, (name, result)
    assert result.stderr.count("expected confirm=N, from 1 to 16") == 7, result
    assert "-rw-------" in parts["killed"], result


# For each planted bug of the variant `debug`: {cache: lost heads}, {cache: objects that the heads
# keep}.
PLANTED = {
    "exec_format": ({"chan": 1}, {"bytes_16": 1}),  # the object of bytes_16 is the name of the channel's file
    "pipe_close": ({"pipe_buffer": 2}, {}),
    "walk_error": ({"chan": 2}, {}),
    "kept_stack": ({"page": 2}, {}),
    "bind_spare": ({"mount": 1}, {"chan": 1, "mount_head": 1, "bytes_16": 1}),
    "dup_range": ({"chan": 1}, {"bytes_16": 1}),
    "load_error": ({"address_space": 2}, {"page": 2, "vm_region": 1, "chan": 1, "bytes_16": 1}),  # lost when execve has no memory
}
# The commands of SHOWN do not trigger these bugs. For each bug: a command that triggers it.
AWAKENED = {
    "dup_range": "leakfuzz run '0 open P24 0 0; fcntl 3 0 100; close 3' > /dev/null",
    "load_error": """i=0; while [ $((i += 1)) -lt 80 ]; do sh -c "echo 'failnext 1 after=$i' > '#debug/alloc'; exec true" 2> /dev/null; done""",
}
SHOWN = """
ls / | cat > /dev/null; ls / | cat > /dev/null; ls /nosuch/x /nosuch/y /nosuch/z 2> /dev/null
echo x > /tmp/e; chmod 755 /tmp/e; /tmp/e 2> /dev/null; /tmp/e 2> /dev/null
cat '#mem/unreachable'
"""


@pytest.mark.parametrize("bug", ["exec_format", *(pytest.param(bug, marks=pytest.mark.long) for bug in list(PLANTED)[1:])])
def test_planted_bugs(bug):
    """The report lists at least as many lost heads of each cache as PLANTED says, and at least as many objects that the heads keep; it lists objects
    of no other cache."""
    result = guest(AWAKENED.get(bug, "") + SHOWN, "--variant", "debug", "--cmdline", f"break={bug}", lost=PLANTED[bug][0])
    heads, kept = PLANTED[bug]
    found, keeps = {}, {}
    for name, objects, _, _, _, lines in groups_in(result.stdout):
        found[name] = found.get(name, 0) + objects
        for count, holder in re.findall(r"^\tkeeps \d+ bytes in (\d+) objects of (\S+)$", "\n".join(lines), re.M):
            keeps[holder] = keeps.get(holder, 0) + int(count)
    assert found.keys() == heads.keys() and all(found[name] >= heads[name] for name in heads), result
    assert keeps.keys() == kept.keys() and all(keeps[name] >= kept[name] for name in kept), result


# --- The search for unreachable objects in the guest of every test (unreached.py).


@pytest.mark.cpus(1)
def test_a_script_that_loses_something_fails_its_test():
    with pytest.raises(Lost, match="objects of pipe_buffer"):
        guest("ls / | cat", "--variant", "debug", "--cmdline", "break=pipe_close")


@pytest.mark.long
@pytest.mark.cpus(8)
@pytest.mark.parametrize("count", (1, 8))
def test_no_script_loses_anything_while_it_runs(count, tmp_path):
    """Runs the scripts of all short tests. In each guest, a loop reads #mem/unreachable while the script runs. The reports list only objects that the
    script has lost through #debug."""
    reports = tmp_path / "reports"
    run = subprocess.run(["pytest-3", "--numprocesses", "2", "--dist", "loadgroup", "--ask-meanwhile", reports, "--ask-cpus", str(count), "-m", "not long",
                          ROOT / "tests/guest"], cwd=ROOT, capture_output=True, check=False)
    assert run.returncode == 0, text(run.stdout)
    asked = [int(line) for line in reports.read_text().splitlines()]
    assert len(asked) > 150 and sum(asked) > 1000, asked


def test_bytes_of_files_and_pipes_are_no_pointers():
    """Would find a search that follows the bytes of a file or a pipe. A dump of a trace has the addresses of all leaked objects, so the objects
    would be reachable for as long as the file lives."""
    result = guest("""
(echo start > #mem/kmemtrace/debug_64; echo 'leak debug_64 20' > #debug/alloc; echo stop > #mem/kmemtrace/debug_64)
cat #mem/tracedump > /tmp/dump
cat #mem/tracedump | (cat '#mem/unreachable'; cat > /dev/null)
""")
    assert result.status == 0, result
    [(name, objects, *_)] = groups_in(result.stdout)
    assert name == "debug_64" and objects >= 19, result  # a stale word on a stack may point to one of them


def test_bytes_of_a_waiting_write_are_no_pointers():
    """Would find a search that follows the bytes of a program's write while the write waits for room in a pipe: a few bytes, or many of them."""
    result = guest(r"""
(echo start > #mem/kmemtrace/debug_64; echo 'leak debug_64 8' > #debug/alloc; echo stop > #mem/kmemtrace/debug_64)
sed -n 's/.*\(0xf[0-9a-f]\{15\}\) size.*/\1/p' #mem/kmemtrace/debug_64 > /tmp/addresses
number=0
while read -r address; do
  file=/tmp/$((number += 1)) bytes=
  rest=${address#0x}  # its last two digits are the first byte in memory
  while [ "$rest" ]; do bytes=$bytes$(printf '\\%03o' 0x${rest#${rest%??}}) rest=${rest%??}; done
  [ $number -gt 4 ] && for i in 1 2 3 4 5 6 7 8; do bytes=$bytes$bytes; done
  printf "$bytes" > $file
  { head -c 8192 /dev/zero; cat $file; } | sleep 1000 &
done < /tmp/addresses
until [ $(grep -l '(cat) S' /proc/[0-9]*/stat | wc -l) = 8 ]; do :; done
cat /tmp/[1-8] | wc -c; cat '#mem/unreachable'
""")
    assert result.status == 0 and result.stdout.startswith("8224\n"), result
    [(name, objects, *_)] = groups_in(result.stdout)
    assert name == "debug_64" and objects >= 7, result  # a stale word on a stack may point to one of them
