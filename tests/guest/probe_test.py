"""#probe from the shell: sessions, counts, events and outstanding objects."""
import re
import subprocess

import pytest

from guest import checked, guest
from probed import ENDS, PROGRAMS, Counts, Program, check_nothing_left

pytestmark = pytest.mark.cpus(1)

def check_sums(counts):
    header = counts.header
    assert header["hits"] == header["counted"] + header["filtered"] + header["lost"]
    assert sum(row["count"] for row in counts.rows) == header["counted"]
    assert len(counts.rows) == header["stacks"]


def counts_of(commands, work, *options):
    output = checked(f"""exec 3<>#probe/clone; read n <&3
echo '{commands}
start' >&3
{work}
echo stop >&3; echo =; cat "#probe/$n/counts"; echo =; exec 3>&-{ENDS}""", *options)
    _, text, rest = output.split("=\n")
    check_nothing_left(rest)
    counts = Counts(text)
    check_sums(counts)
    return counts


def test_exact():
    counts = counts_of("count pipe_create", "for i in 1 2 3 4 5 6 7; do echo $i | cat > /dev/null; done")
    assert (counts.state, counts.functions, counts.header["counted"]) == ("stopped", 1, 7)
    [row] = counts.rows
    assert len(row["kernel"]) >= 4
    assert set(row) == {"count", "kernel", "user"}


def test_nothing_told_apart():
    counts = counts_of("count pipe_create sys_pipe2\nstacks none", "echo 1 | cat > /dev/null")
    assert [(row["count"], row["kernel"], row["user"]) for row in counts.rows] == [(2, (), ())]


def test_processes_and_user_stacks():
    counts = counts_of("count sys_pipe2\nstacks user\nprocesses",
                       "echo 1 | cat; sh -c 'echo 2 | cat; echo 3 | cat'")
    assert sorted(row["count"] for row in counts.rows) == [1, 1, 1], counts.rows  # the inner sh calls sys_pipe2 from two places
    assert len({row["pid"] for row in counts.rows}) == 2
    for row in counts.rows:
        assert (row["name"], row["path"], row["kernel"]) == ("sh", "/bin/sh", ())
        assert re.search("^[0-9a-f]{40}$", row["build"])


def test_programs_are_told_apart_with_user_stacks():
    counts = counts_of("count sys_pipe2\nstacks both", "for i in 1 2 3; do sh -c 'echo 2 | cat'; done")
    assert [row["count"] for row in counts.rows] == [3]
    assert counts.rows[0]["path"] == "/bin/sh"
    assert "pid" not in counts.rows[0]


@pytest.mark.cpus(1)
def test_filters():
    counts = counts_of("count sys_pipe2\npid '$$'", "echo 1 | cat; sh -c 'echo 2 | cat'")
    assert (counts.header["counted"], counts.header["filtered"]) == (1, 1)
    counts = counts_of("count sys_pipe2\ncpu 0", "echo 1 | cat; echo 2 | cat")
    assert (counts.header["counted"], counts.header["filtered"]) == (2, 0)


def test_depth():
    counts = counts_of("count pipe_create\ndepth 2", "echo 1 | cat")
    assert ([len(row["kernel"]) for row in counts.rows], counts.header["truncated"]) == ([2], 1)


@pytest.mark.long
def test_more_text_than_memory():
    """All rows of `counts` can be read, although their text is longer than half of the guest's memory: the kernel formats lines only when they are
    read."""
    output = checked(f"""echo limit 8M > '#mem/kmemtrace/ctl'; exec 3<>#probe/clone; read n <&3
echo 'count *
stacks both
processes
start' >&3
i=0; while [ $i -lt 30 ]; do (echo $i | cat; ls /bin) > /dev/null; i=$((i + 1)); done
echo stop >&3; head -n 2 "#probe/$n/counts"; awk '/^count/ {{ sum += $2; n++ }} END {{ print NR, n, sum }}' "#probe/$n/counts"
wc -c < "#probe/$n/counts"; grep MemTotal /proc/meminfo; exec 3>&-{ENDS}""", "--mem", "32M")
    check_nothing_left(output)
    _, head, sums, size, memory = output.splitlines()[:5]
    header = Counts("probe 1 state stopped functions 1\n" + head).header
    assert [int(word) for word in sums.split()] == [header["stacks"] + 3, header["stacks"], header["counted"]]
    assert int(size) > int(memory.split()[1]) * 1024 / 2, "there are too few stacks for this test"


def test_read_piece_by_piece():
    output = checked(f"""sum=$(cat '#debug/text'); exec 3<>#probe/clone; read n <&3
echo 'count *
stacks both
start' >&3
[ "$sum" != "$(cat '#debug/text')" ] && echo changed
ls -R / > /dev/null 2>&1; echo stop >&3; [ "$sum" = "$(cat '#debug/text')" ] && echo as it was
cat "#probe/$n/counts" > /tmp/all; dd if="#probe/$n/counts" of=/tmp/pieces bs=777 2> /dev/null; cmp /tmp/all /tmp/pieces && echo same
exec 4< "#probe/$n/counts"; dd bs=1000 skip=100 count=1 <&4 2> /dev/null > /tmp/late; dd if=/tmp/all of=/tmp/part bs=1000 skip=100 count=1 2> /dev/null; cmp /tmp/part /tmp/late
wc -c < /tmp/all; wc -c < /tmp/late; rm /tmp/all /tmp/pieces /tmp/late /tmp/part; exec 4<&- 3>&-{ENDS}""")
    check_nothing_left(output)
    lines = output.splitlines()
    assert lines[:3] + lines[4:5] == ["changed", "as it was", "same", "1000"], output
    assert int(lines[3]) > 200_000


@pytest.mark.cpus(4)
def test_everything(tmp_path):
    output = checked(f"""exec 3<>#probe/clone; read n <&3
echo 'count *
stacks both
processes
start' >&3
for i in 1 2 3 4; do sh -c 'ls / | cat' & done > /dev/null; wait
echo stop >&3; cat "#probe/$n/counts" > /host/counts; exec 3>&-{ENDS}""", "--share", str(tmp_path))
    check_nothing_left(output)
    counts = Counts((tmp_path / "counts").read_text())
    check_sums(counts)
    assert counts.functions > 1000
    assert counts.header["counted"] > 10000
    assert (counts.header["lost"], counts.header["stacks_lost"], counts.header["contexts_lost"]) == (0, 0, 0)


def test_program():
    sh = Program("dash", "/bin/sh")
    counts = counts_of(f"count {sh.at('_malloc_r')}\nprocesses", "sh -c 'x=1; y=2'")
    assert counts.header["counted"] > 0
    start = sh.functions["_malloc_r"][0]
    for row in counts.rows:
        assert (row["user"][0], row["path"], row["kernel"]) == (start + 5, "/bin/sh", ())


EVENT = re.compile(r"\d+\.\d{9} cpu \d+ pid \d+ name \S+ (call|return|alloc|free) (\S+)((?: \S+)*)")


def events_in(output):
    return [EVENT.fullmatch(line).groups() for line in output.splitlines() if re.match(r"\d+\.\d", line)]


def test_calls_and_returns():
    output = checked("""exec 3<>#probe/clone; read n <&3
echo 'event+return pipe_create
event sys_pipe2
start' >&3
echo 1 | cat; echo 2 | cat
echo stop >&3; cat #probe/$n/events; exec 3>&-""" + ENDS)
    events = events_in(output)
    assert [event[:2] for event in events] == 2 * [("call", "sys_pipe2"), ("call", "pipe_create"), ("return", "pipe_create")], output
    assert [len(event[2].split()) for event in events] == 2 * [6, 6, 1]
    check_nothing_left(output)


def test_reader_waits_and_ends():
    output = checked("""exec 3<>#probe/clone; read n <&3
echo 'event pipe_create' >&3
cat #probe/$n/events & reader=$!
echo start >&3
for i in 1 2 3 4 5; do echo 1 | cat > /dev/null; done
echo stop >&3; wait $reader; echo "status $?"; exec 3>&-""" + ENDS)
    assert len(events_in(output)) == 5, output
    assert "status 0\n" in output
    check_nothing_left(output)


def test_waiting_reader_is_killed():
    output = checked("""exec 3<>#probe/clone; read n <&3
echo 'event pipe_create
start' >&3
cat #probe/$n/events & exec 2> /dev/null; kill $!; wait $!; echo "status $?"; exec 3>&-""" + ENDS)
    assert "status 143\n" in output
    check_nothing_left(output)


def test_lost():
    output = checked("""echo 'limit 1M' > #mem/kmemtrace/ctl; exec 3<>#probe/clone; read n <&3
echo 'event *
start' >&3
for i in 1 2 3; do ls / > /dev/null; done
echo stop >&3; cat #probe/$n/events > /tmp/events; wc -l < /tmp/events; grep -c '^lost [0-9]*$' /tmp/events
tail -n 1 /tmp/events; head -2 #probe/$n/counts; exec 3>&-""" + ENDS)
    lines, losses, last, _, hits = output.splitlines()[:5]
    lost = int(re.search(r" lost (\d+)", hits)[1])
    counted = int(re.search(r" counted (\d+)", hits)[1])
    assert (int(losses), last) == (1, f"lost {lost}"), output
    assert int(lines) == counted + 1
    check_nothing_left(output)


def test_events_of_objects():
    program = Program("heaptest")
    rules = program.allocators()
    output = checked(f"""exec 3<>#probe/clone; read n <&3
echo '{rules}
watch memory' >&3
cat #probe/$n/events > /tmp/events & until [ -f /tmp/events ]; do :; done
exec 4<#probe/$n/events
echo start >&3
heaptest objects > /dev/null && heaptest memory > /dev/null
echo stop >&3; wait; cat /tmp/events; cat <&4; cat #probe/$n/outstanding > /tmp/dump; exec 3>&- 4<&-""" + ENDS)
    events = events_in(output)
    kinds = {event[:2] for event in events}
    assert {("alloc", "_malloc_r"), ("free", "_free_r"), ("alloc", "_realloc_r"), ("free", "_realloc_r"),
            ("alloc", "mmap"), ("free", "munmap"), ("alloc", "posix_memalign")} <= kinds, output
    assert "size" in [event[2].split()[1] for event in events if event[0] == "alloc"][0]
    check_nothing_left(output)


def test_numbers_and_listing():
    output = checked("""exec 3<>#probe/clone 4<>#probe/clone; read a <&3; read b <&4; echo $a $b; read again <&3; echo $?
ls "#probe"; ls #probe/$b; exec 3>&-; ls "#probe"; cat #probe/$a/counts; cat #probe/$b/counts; exec 4>&-; ls '#probe'""",
                       errors="cat: can't open '#probe/1/counts': No such file or directory\n")
    assert output == ("1 2\n1\n1\n2\nclone\nfunctions\ncounts\nctl\nevents\noutstanding\n2\nclone\nfunctions\n"
                     "probe 2 state off functions 0\nhits 0 counted 0 filtered 0 lost 0 kept_out 0 stacks 0 stacks_lost 0 "
                     "contexts_lost 0 truncated 0 abandoned 0\nclone\nfunctions\n")


def test_lives_in_a_child_and_dies_with_it():
    output = checked("""exec 3<>#probe/clone; read n <&3
echo 'count pipe_create
start' >&3
sleep 1000 & child=$!
exec 3>&-
echo 1 | cat; tail -n 1 #probe/$n/counts; grep ' pipe_create' '#probe/functions'
exec 2> /dev/null; kill $child; wait $child
grep ' pipe_create' '#probe/functions'""" + ENDS)
    assert "count 1 kernel " in output
    assert re.search(r"[0-9a-f]{16} pipe_create probed 1\n[0-9a-f]{16} pipe_create\n", output)
    check_nothing_left(output)


@pytest.mark.cpus(4)
def test_several_at_once():
    output = checked("""exec 3<>#probe/clone 4<>#probe/clone
echo 'count pipe_create
start' >&3
echo 'count pipe*
stacks none
start' >&4
echo 1 | cat > /dev/null
grep ' pipe_create' '#probe/functions'
echo stop >&3
echo 1 | cat > /dev/null
cat #probe/1/counts; cat #probe/2/counts; exec 3>&- 4>&-""" + ENDS)
    assert " pipe_create probed 2\n" in output
    assert "probe 1 state stopped functions 1\nhits 1 " in output
    assert "probe 2 state running functions 2\nhits 2 " in output
    check_nothing_left(output)


@pytest.mark.cpus(4)
def test_no_more_than_64():
    script = "".join(f"( exec 3<>#probe/clone; echo > /tmp/{i}; exec sleep 1000 ) & pids=\"$pids $!\"\n" for i in range(64))
    output = checked(script + """i=0; while [ $i -lt 64 ]; do until [ -f /tmp/$i ]; do :; done; i=$((i + 1)); done
ls '#probe' | grep -c '[0-9]'
( exec 3<>#probe/clone ) 2> /tmp/error; cat /tmp/error
exec 2> /dev/null; kill $pids; wait""" + ENDS)
    assert output.startswith("64\n"), output
    assert "all 64 sessions are in use" in output
    check_nothing_left(output)


def test_clear_and_start_again():
    output = checked("""exec 3<>#probe/clone
echo 'count pipe_create
start' >&3
echo 1 | cat > /dev/null; echo clear >&3; echo 1 | cat > /dev/null; echo 1 | cat > /dev/null; echo stop >&3; echo 1 | cat > /dev/null
echo start >&3; echo 1 | cat > /dev/null; echo start >&3; echo stop >&3; echo stop >&3; head -n 2 #probe/1/counts
echo clear >&3; tail -n 1 #probe/1/counts; exec 3>&-""" + ENDS)
    assert "state stopped functions 1\nhits 3 counted 3 " in output
    assert "\nhits 0 counted 0 " in output
    check_nothing_left(output)


def test_many_names():
    output = checked("""exec 3<>#probe/clone
cut -d' ' -f2 '#probe/functions' | grep '^[a-z_0-9]*$' | sort -u | head -n 700 > /tmp/names
{ echo count $(cat /tmp/names); echo start; } > /tmp/command; wc -c < /tmp/command; cat /tmp/command >&3
ls / > /dev/null; echo stop >&3; head -n 2 #probe/1/counts; exec 3>&-""" + ENDS)
    assert int(re.search(r"functions (\d+)", output)[1]) >= 500
    check_nothing_left(output)


COMMANDS = {
    "": "nothing to do",
    "bogus": 'expected count event',
    "count": "takes names of functions",
    "count no_such_function": '0 functions matched by "no_such_function"',
    "count no_such*": '0 functions matched by "no_such*"',
    "count /bin/sh": "PATH:ADDRESS:NAME",
    "count /bin/sh:x:main": "PATH:ADDRESS:NAME",
    "count /bin/sh:401000:main:zz": "PATH:ADDRESS:NAME",
    "count /bin/sh:1:main\nstart": "",
    "count /bin/nothere:401000:main\nstart": "",
    "event+return /bin/sh:401000:main": "`ret` instructions are missing",
    "alloc kmalloc": "size=N",
    "alloc kmalloc size=7": "1 to 6",
    "alloc kmalloc size=1 result=*2": "functions of programs",
    "alloc kmalloc size=1\nalloc kmalloc size=2\nstart": "two ways",
    "free kfree": "address=N",
    "free kfree address=0": "address=N",
    "watch": "watch memory",
    "stacks all": "kernel, user, both or none",
    "depth 0": "from 1 to 61",
    "depth 62": "from 1 to 61",
    "pid x": "a number from 1",
    "cpu 63": "there are",
    "min 1\nmax 99999999999": "a number from 0",
    "count pipe_create\nmin 2\nmax 1\nstart": "min is greater than max",
    "sample 0": "a number from 1",
    "start": "nothing to start",
    "processes now": "nothing may follow",
    "count pipe_create\nbogus": "expected count",
}


def test_commands():
    script = "exec 3<>#probe/clone\n"
    for text in COMMANDS:
        script += f"printf '%s\\n' '{text}' >&3 && echo 'done: {text}'\n"
    script += "cat #probe/1/counts; exec 3>&-" + ENDS
    result = guest(script)
    lines = result.stderr.splitlines()
    assert len(lines) == len(COMMANDS), result
    for line, (text, part) in zip(lines, COMMANDS.items()):
        assert part in line, text
    assert result.stdout.startswith("probe 1 state off functions "), result
    check_nothing_left(result.stdout)


def test_garbage():
    result = guest("""exec 3<>#probe/clone 4<>#probe/clone
head -c 3000 /dev/urandom >&3; head -c 70000 /dev/zero | tr '\\0' a >&3; printf 'count \\001\\n' >&3
for f in ctl counts events outstanding; do echo x > #probe/4/$f; echo x > #probe/1/x; cat #probe/1/nothing; done
echo x > #probe/1/counts; echo x > #probe/1/events; echo x > #probe/1/outstanding; echo x > '#probe/functions'; cat < #probe/clone
echo 'count '$(printf '*%.0s' $(seq 1 300)) >&3; echo start >&3; echo stop >&3; rm #probe/1; mkdir #probe/x; echo > #probe/new
exec 3>&- 4>&-""" + ENDS)
    assert result.status == 0, result
    check_nothing_left(result.stdout)


def test_not_for_everyone():
    result = guest("for f in clone functions; do su nobody -s /bin/sh -c \"cat '#probe/$f'\"; done; true")
    assert "ffffffff8" not in result.stdout


def test_little_memory():
    output = checked("""echo 'limit 64K' > #mem/kmemtrace/ctl
exec 3<>#probe/clone
echo 'count *
processes
stacks both
start' >&3
for i in 1 2 3; do ls / | cat > /dev/null; done
echo stop >&3; head -n 2 #probe/1/counts; grep '^limit' #mem/kmemtrace/ctl; exec 3>&-""" + ENDS)
    header = dict(re.findall(r" ?(\w+) (\d+)", output.splitlines()[1]))
    assert int(header["hits"]) == int(header["counted"]) + int(header["filtered"]) + int(header["lost"])
    assert int(header["lost"]) + int(header["stacks_lost"]) > 0, output
    check_nothing_left(output)


@pytest.mark.cpus(4)
def test_counts_in_little_memory():
    """A session counts the calls of all functions with little memory. Five readers then read `counts`: three of them at the same time, and one of
    them in small pieces. For each reader, the rows add up to the header."""
    agrees = "awk '/^hits/ { counted = $4; rows = $12 } /^count/ { n += $2; m++ } END { print n == counted, m == rows, (m > 1000) }'"
    output = checked(f"""while :; do echo a | cat; done > /dev/null & load=$!
exec 3<>#probe/clone; read n <&3
echo 'count *
stacks both
processes
start' >&3; sleep 1
exec 4< "#probe/$n/counts"; echo stop >&3; kill $load; wait $load 2> /dev/null; {agrees} <&4; exec 4<&-
for i in 1 2 3; do {agrees} "#probe/$n/counts" & readers="$readers $!"; done; wait $readers
dd bs=1000 "if=#probe/$n/counts" 2> /dev/null | {agrees}; exec 3>&-{ENDS}""",
                       "--mem", "24")
    assert output[:5 * 6] == "1 1 1\n" * 5, output
    check_nothing_left(output)


def test_no_memory():
    result = guest("""echo 'limit 4K' > #mem/kmemtrace/ctl
exec 3<>#probe/clone
echo 'count pipe*
start' >&3; echo $?; head -n 1 #probe/1/counts; exec 3>&-; echo 'limit 8M' > #mem/kmemtrace/ctl
for i in 0 1 2 3 4 5 6 7 8 9; do for j in 0 1 2; do
( echo "failnext 1 after=$i" > #debug/alloc; exec 3<>#probe/clone && echo 'count pipe_create
start' >&3; echo "failnext 1 after=$j" > #debug/alloc; head -n 1 #probe/*/counts; cat #probe/*/outstanding; exec 3>&- ) > /dev/null 2>&1
done; done""" + ENDS)
    assert result.stdout.startswith("1\nprobe 1 state off functions 0\n"), result
    assert "out of memory" in result.stderr.lower()
    check_nothing_left(result.stdout)


def test_a_return_is_one_that_the_program_names():
    """#probe refuses a return address that lies inside an instruction, even if the byte at this address is 0xc3 (ret). A breakpoint there would
    change the instruction."""
    program = Program("heaptest")
    address, size = program.functions["main"]
    listing = subprocess.run(["objdump", "-d", "-w", PROGRAMS / "heaptest"], check=True, capture_output=True, text=True).stdout
    inside = []
    for at, code in re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)", listing, re.M):
        inside += [int(at, 16) + i for i, byte in enumerate(code.split()) if byte == "c3" and i > 0]
    inside = [at for at in inside if at not in program.returns]
    assert inside, "the program has no such byte"
    wrong = f"{program.path}:{address:x}:main:{inside[0]:x}"
    output = checked(f"""exec 3<>#probe/clone; read n <&3
echo 'event {wrong}' >&3
echo start >&3
exec 3>&-; exec 3<>#probe/clone
echo 'event {program.at("main", True)}' >&3; echo start >&3; echo $?
exec 3>&-""" + ENDS, errors=f"/etc/script: 3: echo: Invalid argument: {inside[0]:x}: there is no `ret` instruction\n")
    assert output.startswith("0\n")
    check_nothing_left(output)


def test_a_command_is_whole_or_refused(tmp_path):
    """A single write of more than 64 KiB is refused, although its first 64 KiB are valid commands."""
    (tmp_path / "long").write_text("count path_open\n" * 4096 + "count path_open\n")
    (tmp_path / "most").write_text("count path_open\n" * 4096)
    output = checked("""exec 3<>#probe/clone; read n <&3
dd if=/host/long of=/tmp/long bs=4096 2> /dev/null; dd if=/host/most of=/tmp/most bs=4096 2> /dev/null
dd ibs=4096 obs=1000000 if=/tmp/long 2> /dev/null >&3 && echo taken
(echo start >&3) 2> /dev/null && echo started
dd ibs=4096 obs=1000000 if=/tmp/most 2> /dev/null >&3 && echo start >&3 && echo taken whole
head -n 1 #probe/$n/counts; exec 3>&-""" + ENDS, "--share", str(tmp_path))
    assert output.startswith("taken whole\nprobe 1 state running functions 1\n"), output
    check_nothing_left(output)
