"""memleak for the kernel: leaks are reported with their exact bytes, and no trace is left when memleak has ended."""
import re
import subprocess

import pytest

from guest import BUILD, checked, ctl_in, guest

pytestmark = pytest.mark.cpus(1)

# `begin ARGUMENTS` starts memleak and waits for its first report; memleak has started all traces before this report. `next_reports` waits
# for a report that began after the call. `finish SIGNAL` ends memleak and prints its output.
PRELUDE = """
ctl='#mem/kmemtrace/ctl'
reports() { grep -c '\\] Top' /tmp/out; }
begin() { : > /tmp/out; memleak "$@" > /tmp/out & pid=$!; until [ "$(reports)" -ge 1 ]; do sleep 0.1; done; }
next_reports() { seen=$(reports); until [ "$(reports)" -ge $((seen + 2)) ]; do sleep 0.1; done; }
finish() { kill -"$1" $pid; wait $pid; echo "status $?" >&2; cat /tmp/out; }
"""
HEADING = re.compile(r"\[\d\d:\d\d:\d\d\] Top (\d+) stacks with (changed )?outstanding allocations:")
GROUP = re.compile(r"\t([+-]?\d+) bytes in ([+-]?\d+) allocations from stack")
ADDRESS = re.compile(r"\taddr = ([0-9a-f]+) size = (\d+)")
FRAME = re.compile(r"\t\t((?:.+\+)?0x[0-9a-f]+ \[[\w.]+\]|stack information lost)")
COUNTER = re.compile(r"(\w+) (\d+)")


class Report:
    def __init__(self, shown):
        self.shown, self.groups, self.addresses, self.left_out, self.rest = shown, [], [], None, None

    def leaked(self):
        """Returns [(bytes, allocations)] of the planted leaks, as printed."""
        return [group[:2] for group in self.groups if group[2] and group[2][0].startswith("leak_at_depth+")]

    def by(self, function):
        """Returns (bytes, allocations) of the stacks whose innermost frame is in `function`. Frames of strdup are ignored."""
        found = [group for group in self.groups if ([frame for frame in group[2] if not re.match("_?strdup", frame)] or [""])[0].startswith(function + "+")]
        return sum(group[0] for group in found), sum(group[1] for group in found)


def reports_in(output):
    """Returns a list of reports, and the lines that belong to none."""
    reports, others = [], []
    for line in output.splitlines():
        if found := HEADING.fullmatch(line):
            reports.append(Report(int(found[1])))
        elif found := GROUP.fullmatch(line):
            reports[-1].groups.append((int(found[1]), int(found[2]), []))
        elif found := ADDRESS.fullmatch(line):
            reports[-1].addresses.append((int(found[1], 16), int(found[2])))
        elif found := FRAME.fullmatch(line):
            reports[-1].groups[-1][2].append(found[1])
        elif line.startswith("Left out: "):
            counters, _, reports[-1].rest = line.partition("; ")
            reports[-1].left_out = {key: int(value) for key, value in COUNTER.findall(counters)}
        else:
            others.append(line)
    return reports, others


def reports_only(output):
    """Returns a list of reports. Fails if a line after the first one belongs to none."""
    reports, others = reports_in(output)
    assert others == ["Attaching to kernel allocators, Ctrl+C to quit."], output
    return reports


def run_guest(script, stderr=""):
    return checked(PRELUDE + script, errors=stderr)


def check_nothing_traced(ctl):
    memory, traces = ctl_in(ctl)
    assert (memory["used"], traces) == (0, []), ctl


@pytest.mark.cpus(4)
def test_30000_bytes_of_each_kind():
    """A cache, kmalloc and the page allocator leak 30,000 bytes each, and memleak reports each leak. After SIGINT nothing stays traced."""
    output = run_guest("""
begin -o 0 -T 100 1
printf 'leak kmalloc_16 1875 depth=2\\nleak kmalloc 30 size=1000 depth=3\\nleak page 10 size=3000 depth=4\\n' > '#debug/alloc'
next_reports; finish INT; echo ===; cat "$ctl"
""", "status 0\n")
    output, _, ctl = output.partition("===\n")
    *_, report = reports_only(output)
    assert sorted(report.leaked()) == [(30000, 10), (30000, 30), (30000, 1875)], output
    for _, objects, frames in report.groups:
        if frames[0].startswith("leak_at_depth+"):
            depth = {1875: 2, 30: 3, 10: 4}[objects]
            names = [frame.partition("+")[0] for frame in frames]
            assert names[:depth + 1] == ["leak_at_depth"] * depth + ["debug_alloc_write"], output
    assert [group[0] for group in report.groups] == sorted(group[0] for group in report.groups), "the largest last"
    assert (report.left_out["dropped"], report.left_out["stacks_lost"], report.left_out["filtered"]) == (0, 0, 0)
    assert re.search(r"^traces: \d\d of memleak, 0 of others$", report.rest)
    check_nothing_traced(ctl)


def test_interval_and_count():
    output = run_guest("""
set -- $(cat /proc/uptime); before=${1%.*}
memleak 2 3; set -- $? $(cat /proc/uptime)
echo ===; echo status $1, $((${2%.*} - before >= 5)); cat "$ctl"
""")
    output, _, rest = output.partition("===\n")
    ended, _, ctl = rest.partition("\n")
    assert (len(reports_only(output)), ended) == (3, "status 0, 1")
    check_nothing_traced(ctl)


def test_however_it_ends():
    """memleak stops and resets its traces after SIGTERM, and when its output is closed. After SIGKILL the traces go on, and the next
    memleak stops and resets these traces when it ends."""
    output = run_guest("""
begin 1; finish TERM > /dev/null; cat "$ctl"; echo ===
memleak 1 2> /tmp/err | head -n 1; cat "$ctl"; echo ===; cat /tmp/err; echo ===
begin 1 ; kill -KILL $pid; wait $pid 2> /dev/null; grep -c state "$ctl"; echo ===
memleak --source debug_64 1 1 > /dev/null; cat "$ctl"
""", "status 0\n")
    after_term, after_close, message, after_kill, after_next = output.split("===\n")
    check_nothing_traced(after_term)
    assert message == "memleak: the output cannot be written\n"
    check_nothing_traced(after_close.partition("\n")[2])
    assert int(after_kill) > 20
    check_nothing_traced(after_next)


@pytest.mark.cpus(4)
def test_several_at_once():
    """Two memleaks use the same trace. When one memleak ends, the trace keeps running for the other. memleak reports the objects of a trace
    that another program has started, but does not change this trace."""
    output = run_guest("""
echo 'start depth=3' > '#mem/kmemtrace/debug_1024'
echo 'leak debug_1024 3' > '#debug/alloc'
begin --source debug_64 --source debug_1024 -o 0 1
memleak 1 1 > /dev/null
echo 'leak debug_64 100' > '#debug/alloc'
next_reports; finish INT; echo ===; cat "$ctl"
""", "status 0\n")
    output, _, ctl = output.partition("===\n")
    *_, report = reports_only(output)
    assert report.leaked() == [(3072, 3), (6400, 100)], output
    assert report.rest == "traces: 1 of memleak, 1 of others"
    assert re.search(r"(?m)^kmemtrace debug_1024 state running .* depth 3 ", ctl)
    assert ctl.count("state ") == 1, ctl


def test_allocations_sizes_and_order():
    output = run_guest("""
begin -a -o 0 -z 900 -Z 1K --sort count -T 1 --source kmalloc_1024 --source debug_64 1
printf 'leak kmalloc 5 size=1000\\nleak kmalloc 7 size=900 depth=2\\nleak debug_64 9\\n' > '#debug/alloc'
next_reports; finish INT
memleak --source debug_64 --combined-only 1 1
""", "status 0\n")
    output, combined = output.split("Attaching", 2)[1:]
    *_, report = reports_only("Attaching" + output)
    assert [size for _, size in report.addresses] == [900] * 7 + [1000] * 5, output
    assert len(dict(report.addresses)) == 12
    assert (report.shown, report.leaked()) == (1, [(6300, 7)])
    assert (report.left_out["filtered"], report.left_out["further_stacks"]) == (9, 1)
    [report] = reports_only("Attaching" + combined)
    assert (report.shown, report.addresses) == (0, [])


def test_age():
    output = run_guest("""
begin --source debug_64 -o 600000 1; echo 'leak debug_64 9' > '#debug/alloc'; next_reports; finish INT
""", "status 0\n")
    *_, report = reports_only(output)
    assert (report.groups, report.left_out["younger"]) == ([], 9)


def test_difference_and_mark():
    output = run_guest("""
echo start > '#mem/kmemtrace/debug_64'; echo 'leak debug_64 10' > '#debug/alloc'
begin --diff --source debug_64 -o 0 1
printf 'leak debug_64 100 depth=2\\nfree debug_64 4\\n' > '#debug/alloc'; next_reports
finish INT; echo ===
echo mark > '#mem/kmemtrace/debug_64'; echo 'leak debug_64 7 depth=3' > '#debug/alloc'
memleak --since-mark --source debug_64 -o 0 1 1
""", "status 0\n")
    changes, marked = output.split("===\n")
    # A report may come between `leak` and `free`, so the test adds up the reports.
    sums = {}
    *_, last = reports = reports_only(changes)
    for report in reports:
        for size, objects, frames in report.groups:
            depth = [frame.partition("+")[0] for frame in frames].count("leak_at_depth")
            sums[depth] = tuple(map(sum, zip(sums.get(depth, (0, 0)), (size, objects))))
    assert (sums, last.groups) == ({1: (-256, -4), 2: (6400, 100)}, []), output
    [report] = reports_only(marked)
    assert (report.leaked(), report.left_out["before_mark"]) == ([(448, 7)], 106)


def test_samples_stand_for_all():
    output = run_guest("""
begin -s 4K --source debug_64 -o 0 1; echo 'leak debug_64 200000' > '#debug/alloc'; next_reports; finish INT
""", "status 0\n")
    *_, report = reports_only(output)
    [(size, objects)] = report.leaked()
    # There are about 3100 records, so the standard error is 1.8 %.
    assert objects == pytest.approx(200_000, abs=20_000)
    assert size == pytest.approx(64 * objects, abs=64)
    assert report.left_out["filtered"] > 190_000
    assert report.rest.endswith(", estimated from samples")


def test_folded():
    output = run_guest("""
echo start > '#mem/kmemtrace/debug_64'; printf 'leak debug_64 10 depth=2\\nleak debug_64 5 depth=3 irq\\n' > '#debug/alloc'
memleak -f -o 0 --source debug_64 1 2> /tmp/err; memleak -f --sort count -o 0 --source debug_64 1 2> /dev/null
""")
    lines = [line.rpartition(" ") for line in output.splitlines()]
    assert [int(number) for _, _, number in lines] == [640, 320, 10, 5], output
    assert [stack.split(";")[-2:] for stack, _, _ in lines] == [["leak_at_depth"] * 2] * 4
    assert "debug_interrupt;leak_at_depth;leak_at_depth;leak_at_depth 320\n" in output
    assert ";debug_alloc_write;leak_at_depth;leak_at_depth 640\n" in output


def test_user_stacks():
    """memleak -U shows user stacks with names of functions. For a program whose file was replaced it shows addresses."""
    output = run_guest("""
cp /bin/leakdemo /tmp/demo
echo start > '#mem/kmemtrace/leaky'; leakdemo leak 30; /tmp/demo leak 20; cat /bin/cxxtest > /tmp/demo
memleak -U -o 0 --source leaky 1 1; memleak -U -f -o 0 --source leaky 1 2> /dev/null
""")
    folded = output.splitlines()[-2:]
    [report] = reports_only("\n".join(output.splitlines()[:-2]))
    [(_, replaced, addresses), (_, objects, frames)] = report.groups
    assert (objects, replaced) == (30, 20)
    names = [re.sub(r"\+0x[0-9a-f]+", "", frame) for frame in frames if not frame.endswith("[kernel]")]
    assert names[-3:] == ["main [leakdemo]", "__stele_start [leakdemo]", "_start [leakdemo]"], output
    assert "open [leakdemo]" in names
    assert len([frame for frame in addresses if re.fullmatch(r"0x[0-9a-f]+ \[demo\]", frame)]) >= 3, output
    assert any(line.startswith("_start;") and ";main;" in line and line.endswith(" 5760") for line in folded), output


def test_names_of_cxx_functions():
    output = run_guest("memleak -U -f --with-self --source chan --source pipe -o 0 1 2> /dev/null")
    assert re.search(r"(?m)^_start;.*;main;.*read_file\(std::", output)


def test_its_own_allocations():
    """memleak reports its own allocations only with --with-self. The test looks at the allocations for memleak's open files."""
    output = run_guest("memleak --source chan -o 0 1 1 > /tmp/a; memleak --with-self --source chan -o 0 1 1 > /tmp/b; cat /tmp/a /tmp/b")
    without, with_self = ("Attaching" + part for part in output.split("Attaching")[1:])
    [without], [with_self] = reports_only(without), reports_only(with_self)
    assert without.groups == [], output
    assert without.left_out["own"] > 0
    assert len(with_self.groups) > 0
    assert with_self.left_out["own"] == 0


def test_bad_arguments():
    bad = ["-x", "-o", "-o x", "-o -1", "0", "x", "1 0", "1 2 3", "-z 2 -Z 1", "-T 0", "-s 0", "-s 5G", "-s 1X", "--sort age", "-a --combined-only",
           "-f -a", "-f --diff", "--diff -a", "--source ctl", "--source a/b", "-z 4G", "-t", "-O c", "--symbols-prefix x",
           "--percpu", "-p 0", "-p 1 -c ls", "-c ' '", "-p 1 --source page", "-p 1 --since-mark", "-c ls --with-self", "-i 0", "--nosuch"]
    result = guest(PRELUDE + "\n".join(f"memleak {arguments} > /tmp/out 2> /tmp/err; echo $? $(wc -c < /tmp/out) \"$(grep -c '^usage: memleak' "
                                       "/tmp/err)\" $(grep memleak: /tmp/err)" for arguments in bad) +
                   "\nmemleak --source none 1 1 > /dev/null; echo $?; memleak --source page_4096 1 1 > /dev/null; echo $?; memleak -h; cat \"$ctl\"")
    lines = result.stdout.splitlines()
    for arguments, line in zip(bad, lines):
        assert re.search(r"^2 0 1 memleak: .", line), arguments
    assert "needs a process" in lines[bad.index("-t")]
    assert lines[len(bad):len(bad) + 2] == ["1", "1"]
    assert result.stderr == ("memleak: none: no cache or arena has this name; #mem/kmemstat shows them\n"
                                    "memleak: page_4096: it cannot be traced\n")
    assert lines[len(bad) + 2].startswith("usage: memleak [-h]")
    check_nothing_traced(lines[-1] + "\n")


def test_as_the_linker_says():
    result = guest("ls -l '#mem/ksyms'; cat '#mem/ksyms'")
    mode, *lines = result.stdout.splitlines()
    assert mode.startswith("-r-------- "), mode
    symbols = [(int(line[:16], 16), line[19:]) for line in lines]
    assert all(line[16:19] == " T " for line in lines)
    assert symbols == sorted(symbols, key=lambda symbol: symbol[0])
    listed = subprocess.run(["nm", "--defined-only", str(BUILD / "stele.elf")], capture_output=True, text=True, check=True).stdout
    for name in ("kmem_cache_alloc", "kmem_cache_free", "system_call_entry"):
        [address] = [int(line.split()[0], 16) for line in listed.splitlines() if line.split()[2] == name]
        assert (address, name) in symbols
