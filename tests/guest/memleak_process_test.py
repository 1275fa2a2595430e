"""memleak -p and -c: each leak of a process is reported with its exact bytes and the leaking function."""
import re

import pytest

from guest import checked
from memleak_test import reports_in

pytestmark = pytest.mark.cpus(1)

KINDS = ["malloc", "calloc", "realloc", "reallocarray", "reallocf", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc", "strdup",
         "new", "new_array", "new_nothrow", "new_aligned", "new_array_aligned", "failing", "before_fork", "before_kill"]

# `begin A… -- B…` starts alloctest with the arguments B. alloctest waits before it allocates. Then `begin` starts memleak with the arguments A to
# trace this alloctest. $test and $leak are the PIDs of alloctest and memleak. `go` lets alloctest allocate, and waits until alloctest has done so.
# `next_reports` waits for a report that memleak began after the call. `finish` ends alloctest and prints memleak's output.
PRELUDE = """
mkdir /tmp/t; cd /tmp/t
wait_for() { until grep -q "$1" $2 2> /dev/null; do sleep 0.1; done; }
reports() { grep -c '\\] Top' out; }
begin() {
    options=; while [ "$1" != -- ]; do options="$options $1"; shift; done; shift
    : > going; : > ending
    { until [ -s going ]; do sleep 0.1; done; echo; until [ -s ending ]; do sleep 0.1; done; } | alloctest --go --stay "$@" > said &
    wait_for ready said
    test=$(pidof alloctest)
    memleak -p $test $options > out 2> err & leak=$!
    wait_for Attaching out
}
go() { echo > going; wait_for done said; }
next_reports() { seen=$(reports); until [ "$(reports)" -ge $((seen + 2)) ]; do sleep 0.1; done; }
finish() { echo > ending; wait $leak; echo "status $?" >> out; cat err out; }
"""


def run_guest(script, stderr="", *options):
    return checked(PRELUDE + script, *options, errors=stderr)


def check(report, kind, output, size=30000):
    assert report.by(f"leak_{kind}")[0] == size, output
    lost = {key: report.left_out[key] for key in ("dropped", "stacks_lost", "contexts_lost", "truncated", "filtered")}
    assert set(lost.values()) == {0}, output
    for _, _, frames in report.groups:
        if frames[0].startswith("leak_"):
            assert [re.sub(r"\+0x[0-9a-f]+", "", frame) for frame in frames] == [f"leak_{kind} [alloctest]", "main [alloctest]", "__stele_start [alloctest]", "_start [alloctest]"], output


def test_each_allocator():
    """memleak -c traces from the first instruction to the end of the program."""
    output = run_guest("".join(f"memleak -c 'alloctest {kind}'; echo === {kind} $?\n" for kind in KINDS))
    parts = re.split(r"=== (\w+) (\d+)\n", output)
    assert parts[1::3] == KINDS
    for part, kind, status in zip(parts[0::3], parts[1::3], parts[2::3]):
        [report], [executing, attaching] = reports_in(part)
        assert executing == f"Executing 'alloctest {kind}' and tracing the resulting process."
        assert re.search(r"^Attaching to pid \d+, Ctrl\+C to quit\.$", attaching)
        assert status == "0"
        check(report, kind, part)
        ended = "was ended by signal 9" if kind == "before_kill" else "has ended with status 0"
        assert re.search(rf"^process \d+ {ended}$", report.rest)
        assert report.left_out["unmatched"] == 0, part


def test_all_of_a_process_that_runs():
    kinds = [kind for kind in KINDS if kind != "before_kill"]
    output = run_guest(f"begin -o 0 -T 100 1 -- {' '.join(kinds)}; go; next_reports; finish")
    reports, _ = reports_in(output)
    for kind in kinds:
        assert reports[-1].by(f"leak_{kind}")[0] == 30000, output
    assert sum(group[0] for group in reports[-1].groups) == 30000 * len(kinds), "nothing else"
    assert [group[0] for group in reports[-1].groups] == sorted(group[0] for group in reports[-1].groups), "the largest last"


def test_mmap():
    """For mmap, memleak counts the requested size, not whole pages. It does not count a part that was unmapped again."""
    output = run_guest("memleak -c 'alloctest --leak 30000 mmap'; memleak -c 'alloctest --leak 4096000 mmap part_of_mmap'"
                       "; memleak -c 'alloctest --leak 30000 part_of_mmap'")
    [first, second, third], _ = reports_in(output)
    check(first, "mmap", output)
    check(third, "part_of_mmap", output)
    assert (second.by("leak_mmap"), second.by("leak_part_of_mmap")) == ((4096000, 1), (4096000, 2)), output


def test_as_the_test_of_the_original_reads_it():
    """The test of the original memleak (bcc) lets memleak print two reports of the top stack. Then it reads the number of leaked bytes from the
    first word of the last line that contains `byte`. The output of this memleak can be read in the same way."""
    output = run_guest("begin -T 1 1 2 -- malloc; wait_for Top out; go; finish")
    lines = [line for line in output.splitlines() if "byte" in line]
    assert int(lines[-1].split()[0]) == 30000, output


def test_its_own_allocator():
    output = run_guest("""
memleak --symbols-prefix pool_ -c 'alloctest malloc pool'
memleak --symbols-prefix nosuch_ -c 'alloctest malloc'; echo $?
""", "memleak: /bin/alloctest: it has no nosuch_malloc\n")
    [report], others = reports_in(output)
    assert [group[:2] for group in report.groups] == [(30000, 30)], output
    check(report, "pool", output)
    assert others[-1] == "1"


def test_from_now_on():
    """memleak -p does not report allocations from before its start, and counts their frees as `unmatched`."""
    output = run_guest("begin -o 0 1 -- --leak 2000 malloc free_old; go; next_reports; finish")
    reports, [*_, status] = reports_in(output)
    assert (reports[-1].by("leak_malloc"), reports[-1].left_out["unmatched"]) == ((2000, 2), 1), output
    assert status == "status 0"


def test_allocations_sizes_and_order():
    output = run_guest("begin -a -o 0 -z 1000 -Z 4K --sort count -T 1 1 -- --leak 9000 malloc posix_memalign failing; go; next_reports; finish")
    report = reports_in(output)[0][-1]
    assert [size for _, size in report.addresses] == [1000] * 18, output
    assert len(dict(report.addresses)) == 18
    assert (report.shown, report.groups[0][:2], report.left_out["further_stacks"]) == (1, (9000, 9), 1)
    assert report.left_out["filtered"] >= 1


def test_age():
    """-o leaves out younger allocations only while the process runs. When the process has ended, memleak reports all allocations that are left."""
    output = run_guest("begin -o 600000 1 -- malloc; go; next_reports; finish")
    *_, before, last = reports_in(output)[0]
    assert (before.groups, before.left_out["younger"]) == ([], 30), output
    assert (last.by("leak_malloc"), last.left_out["younger"]) == ((30000, 30), 0), output


def test_combined_only():
    output = run_guest("begin --combined-only 1 -- malloc; go; next_reports; finish")
    assert reports_in(output)[0][-1].by("leak_malloc") == (30000, 30)


def test_difference():
    output = run_guest("begin --diff -o 0 1 -- malloc calloc; wait_for Top out; go; next_reports; finish")
    reports, _ = reports_in(output)
    assert "changed outstanding" in output
    for kind in ("malloc", "calloc"):
        assert [report.by(f"leak_{kind}") for report in reports if report.groups] == [(30000, 30)], output
    assert "\t+30000 bytes in +30 allocations" in output


def test_samples_stand_for_all():
    output = run_guest("begin -s 8K -o 0 1 -- --leak 20000000 malloc; go; next_reports; finish")
    report = reports_in(output)[0][-1]
    size, objects = report.by("leak_malloc")
    # There are about 2300 records, so the standard error is 2.1 %.
    assert objects == pytest.approx(20_000, abs=2_500)
    assert size == pytest.approx(1000 * objects, abs=1000)
    assert report.rest.endswith(", estimated from samples"), output


def test_folded():
    """With -f -c, memleak prints folded stacks when the command has ended, or after the interval of -i, and nothing else to standard output."""
    output = run_guest("memleak -f -i 1 -c 'sleep 100000' 2> /dev/null; memleak -f -c 'alloctest malloc new' 2> err; memleak -f --sort count -c 'alloctest malloc' 2> /dev/null; cat err >&2",
                       mock_any)
    lines = [line for line in output.splitlines() if ";leak_" in line]
    assert lines == ["_start;__stele_start;main;leak_malloc 30000", "_start;__stele_start;main;leak_new 30000",
                             "_start;__stele_start;main;leak_malloc 30"]


def test_interval_and_count():
    output = run_guest("begin 1 3 -- malloc; wait $leak; echo $?; cat out; finish > /dev/null")
    reports, [status, *_] = reports_in(output)
    assert (len(reports), status) == (3, "0")
    assert re.search(r"^process \d+ runs$", reports[-1].rest)


class AnyText:
    def __eq__(self, other):
        return isinstance(other, str)


mock_any = AnyText()

EVENT = re.compile(r"\(b'(\S+)', (\d+), (\d+), b'(.{4})', (\d+\.\d{6}), b'(.*)'\)")


def test_no_memory():
    """When trace memory is full, memleak counts dropped records, and the remaining records have the right sizes."""
    output = run_guest("echo 'limit 1M' > '#mem/kmemtrace/ctl'; memleak -c 'alloctest --leak 60000000 malloc' 100; memleak -c 'alloctest malloc'")
    [report, after], _ = reports_in(output)
    size, objects = report.by("leak_malloc")
    assert size == 1000 * objects, output
    assert objects > 10_000
    assert report.left_out["dropped"] > 60_000 - objects
    assert (after.by("leak_malloc"), after.left_out["dropped"]) == ((30000, 30), 0), output


def test_long_paths():
    folder = "/tmp/" + "d" * 100
    output = run_guest(f"mkdir {folder}; cp /bin/alloctest {folder}/test; memleak -c '{folder}/test malloc'; cd {folder}; memleak -c './test malloc'")
    for report in reports_in(output)[0]:
        assert report.by("leak_malloc") == (30000, 30), output


def test_events():
    """memleak -t prints each allocation and each free in the format of the original memleak (bcc)."""
    output = run_guest("memleak -t -c 'alloctest --leak 3000 malloc mmap'; echo $?")
    *lines, status = output.splitlines()[2:]
    assert status == "0"
    found = [EVENT.fullmatch(line) for line in lines]
    assert None not in found, output
    assert {event[1] for event in found} == {"alloctest"}
    assert [float(event[5]) for event in found] == sorted(float(event[5]) for event in found)
    messages = [event[6] for event in found]
    live, done = {}, []
    for message in messages:
        if match := re.fullmatch(r"alloc exited, size = (\d+), result = ([0-9a-f]+)", message):
            live[match[2]] = int(match[1])
            done.append(int(match[1]))
        elif match := re.fullmatch(r"free entered, address = ([0-9a-f]+), size = (\d+)", message):
            assert live.pop(match[1]) == int(match[2])
        else:
            assert re.search(r"^alloc entered, size = \d+$", message)
    assert (done.count(1000), done.count(3000)) == (6, 2), output
    assert (list(live.values()).count(1000), list(live.values()).count(3000)) == (3, 1), output


@pytest.mark.cpus(4)
def test_a_burst():
    """A program allocates and frees faster than memleak -t prints. memleak prints all 20,000 allocations and frees, and loses none."""
    output = run_guest("memleak -t -c 'alloctest --leak 20000 one_by_one' > out; grep -c 'alloc exited, size = 64,' out; "
                       "grep -c 'free entered.* size = 64' out; grep '^lost' out; true")
    assert output == "20000\n20000\n"


def test_ends_by_a_signal():
    output = run_guest("begin -t -- --leak 3000 malloc; go; wait_for 'alloc exited' out; kill -INT $leak; wait $leak; echo $?; grep -c 'exited' out; finish > /dev/null")
    assert output == "0\n6\n"


def test_exec():
    """exec releases the process's memory. memleak continues if the process executes the same program again, and ends if the program is another
    one."""
    output = run_guest("memleak -c 'alloctest before_exec'; memleak -c 'alloctest before_other_program' > out 2> err; echo $?; cat err")
    [report], [*_, status, message] = reports_in(output)
    assert (report.by("leak_before_exec"), report.by("leak_calloc")) == ((0, 0), (2000, 2)), output
    assert status == "1"
    assert re.search(r"^memleak: process \d+ runs another program than /bin/alloctest$", message)


def test_script():
    """For a script, memleak traces the interpreter. It does not trace the interpreter's child processes."""
    output = run_guest("""
printf '#!/bin/sh\\nx=$(seq 1000)\\nalloctest malloc\\n:\\n' > script; chmod +x script
memleak -T 100 -c ./script; memleak -c "sh script"
""")
    reports, others = reports_in(output)
    assert others[0] == "Executing './script' and tracing the resulting process."
    for report in reports:
        assert report.rest.endswith("has ended with status 0"), output
        assert all(frames[-1].endswith("[sh]") for _, _, frames in report.groups), output
        assert len(report.groups) > 0
        assert report.left_out["unmatched"] == 0


@pytest.mark.cpus(4)
def test_nothing_stays_probed():
    """When memleak is ended by a signal, or because its output is closed, no session of #probe is left. After a signal, the traced process runs
    on."""
    output = run_guest("""
for signal in INT TERM KILL; do
    begin 1 -- malloc; wait_for Top out; kill -$signal $leak; wait $leak 2> /dev/null
    ls '#probe'; go; echo > ending; until [ -z "$(pidof alloctest)" ]; do sleep 0.1; done; cat said
done
memleak -c 'alloctest --leak 60000000 --stay malloc' 1 1 < /dev/null 2> /dev/null | head -n 1; ls '#probe'
""")
    assert output == ("clone\nfunctions\nready\ndone\n" * 3 + "Executing 'alloctest --leak 60000000 --stay malloc' and tracing the resulting process.\n"
                     "clone\nfunctions\n")


@pytest.mark.cpus(4)
def test_two_at_once():
    output = run_guest("begin -o 0 1 -- malloc; memleak -o 0 -p $test 1 > second & wait_for Attaching second; go; next_reports; finish; wait; cat second")
    first, second = output.split("status 0\n")
    for output in (first, second):
        assert reports_in(output)[0][-1].by("leak_malloc") == (30000, 30), output


def test_the_command_is_run_as_it_is():
    """memleak -c gives its standard input and output to the command. The last line of the report has the command's exit status. Blanks
    separate the command's words."""
    output = run_guest("""echo line | memleak -c 'cat' > out; grep -x line out
memleak -c "  echo 'a   b'  " 2> /dev/null | head -n 2 | tail -n 1
memleak -c 'sh -c exit' | tail -n 1; memleak -c 'cat /nosuch' 2> /dev/null | tail -n 1""")
    lines = output.splitlines()
    assert lines[0] == "line"
    assert lines[2].endswith("has ended with status 0") and lines[3].endswith("has ended with status 1"), output


def test_what_cannot_be_done():
    output = run_guest("""
cp /bin/alloctest other; x() { "$@" > out 2> err; echo "$? $(cat err)"; }
x memleak -p 99999; x memleak -c nosuch; x memleak -c ./nosuch; x memleak -c /etc/profile; x memleak -c /tmp
x alloctest --as 1000 memleak -p 1; x alloctest --as 1000 memleak -c 'alloctest malloc'
x memleak -O /bin/memleak -c 'alloctest malloc'; x memleak -O ./other -c 'alloctest malloc'; x memleak -O c -c 'alloctest malloc'
echo '#!/nosuch' > script; chmod +x script; x memleak -c ./script
{ until [ -s ending ]; do sleep 0.1; done; } | ./other --go malloc > said & wait_for ready said
rm other; cp /bin/memleak other; x memleak -p $(pidof other); echo > ending; ls '#probe'
""")
    lines = output.splitlines()
    assert lines[:4] == ["1 memleak: there is no process 99999", "1 memleak: nosuch: there is no such program",
                                 "1 memleak: ./nosuch: No such file or directory", "1 memleak: /etc/profile: Permission denied"]
    assert re.search("^1 memleak: /tmp: ", lines[4])
    for line in lines[5:7]:
        assert line == "1 memleak: only root can put probes on functions"
    assert re.search("^1 memleak: -O /bin/memleak: process .* does not run it", lines[7])
    assert lines[8:10] == ["0 ", "0 "]
    assert re.search("^1 memleak: /nosuch: ", lines[10])
    assert re.search(r"^1 memleak: /tmp/t/other: it is not the file any more that process \d+ runs", lines[11])
    assert lines[12:] == ["clone", "functions"]
