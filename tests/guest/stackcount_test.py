"""stackcount: it counts exactly the calls that the script makes, and no function stays probed when stackcount has ended."""
import re

import pytest

from console import Console
from guest import checked, guest

pytestmark = pytest.mark.cpus(1)

# `begin ARGUMENTS` starts stackcount and waits until its probes are armed. `finish SIGNAL` ends
# stackcount and prints its output. `probed` prints the number of kernel functions that are probed.
PRELUDE = """
begin() { : > /tmp/out; stackcount "$@" > /tmp/out & pid=$!; until grep -q '^Tracing' /tmp/out; do sleep 0.1; done; }
finish() { kill -"$1" $pid; wait $pid; echo "status $?" >&2; cat /tmp/out; }
probed() { grep -c ' probed [0-9]*$' '#probe/functions' || :; }
"""
FRAME = re.compile(r"  (?:([0-9a-f]{6,16}) +)?(\S.*)")
PROCESS = re.compile(r"    (\S+) \[(\d+)\]")
COUNT = re.compile(r"    (\d+)")


class Stack:
    def __init__(self):
        self.frames, self.addresses, self.process, self.pid, self.count, self.delimiter = [], [], None, None, None, None


class Output:
    """The output of stackcount. Every line must match the format."""

    def __init__(self, text):
        lines = text.splitlines()
        head = re.fullmatch(r'Tracing (\d+) functions for "(.*)"\.\.\. Hit Ctrl-C to end\.', lines[0])
        assert head and lines[-1] == "Detaching...", text
        self.functions, self.pattern = int(head[1]), head[2]
        self.stacks, self.times, self.lost, stack = [], [], [], Stack()
        for line in lines[1:-1]:
            if COUNT.fullmatch(line):
                stack.count = int(line)
                self.stacks.append(stack)
                stack = Stack()
            elif line == "    --":
                stack.delimiter = len(stack.frames)
            elif found := PROCESS.fullmatch(line):
                stack.process, stack.pid = found[1], int(found[2])
            elif found := FRAME.fullmatch(line):
                stack.addresses.append(found[1])
                stack.frames.append(found[2])
            elif re.fullmatch(r"\d\d:\d\d:\d\d", line):
                self.times.append(len(self.stacks))
            elif line.startswith(("Lost: ", "Left out: ")):
                self.lost.append(line)
            elif line:
                raise AssertionError(f"unknown line {line!r} in\n{text}")

    def total(self, function, process=None):
        """Returns the number of calls of a function by the program `process`, or by all programs."""
        return sum(stack.count for stack in self.stacks if stack.frames[0] == function and process in (None, stack.process))


def run_guest(script, stderr="", options=()):
    return checked(PRELUDE + script, *options, errors=stderr)


def test_functions_of_pipes_while_a_pipeline_runs():
    """Five pipelines make five calls of pipe_create, and dd with bs=1 makes a call of PipeDevice::write for each byte."""
    text = run_guest("""
begin -K 'pipe*'; for i in 1 2 3 4 5; do echo $i | cat > /dev/null; done; finish INT; echo ===
begin -K 'PipeDevice::write'; dd if=/dev/zero bs=1 count=321 2> /dev/null | cat > /dev/null; finish INT; probed
""", "status 0\nstatus 0\n")
    created, _, written = text.partition("===\n")
    written, probed = written.rsplit("\n", 2)[:2]
    created, written = Output(created), Output(written)
    assert (created.functions, created.pattern) == (2, "pipe*")
    [stack] = created.stacks
    assert (stack.count, stack.frames[:2], stack.process) == (5, ["pipe_create", "sys_pipe2"], None)
    assert (written.total("PipeDevice::write"), written.lost, probed) == (321, [], "0")
    assert written.stacks[0].frames[-1] == "system_call_entry"


def test_both_stacks_of_two_processes():
    """Without -K and -U, a stack has the kernel's frames and then the program's frames, and each process is counted separately. With -p PID,
    stackcount counts only the calls of this process, and does not print the process's name."""
    text = run_guest("""
begin -d PipeDevice::write
dd if=/dev/zero bs=1 count=100 2> /dev/null | cat > /dev/null; dd if=/dev/zero bs=1 count=200 2> /dev/null | cat > /dev/null; finish TERM; echo ===
begin -p $$ -U pipe_create; echo 1 | cat > /dev/null; (echo 1 | cat > /dev/null); finish INT
""", "status 0\nstatus 0\n")
    both, one = map(Output, text.split("===\n"))
    first, second = [stack for stack in both.stacks if stack.process == "dd"]
    assert [first.count, second.count] == [100, 200]
    assert first.pid != second.pid
    for stack in (first, second):
        kernel, user = stack.frames[:stack.delimiter], stack.frames[stack.delimiter:]
        assert (kernel[0], kernel[-1]) == ("PipeDevice::write", "system_call_entry")
        assert (user[0], user[-1]) == ("write", "_start"), user
        assert "dd_main" in user
    assert first.frames == second.frames
    [stack] = one.stacks
    assert (stack.count, stack.process, stack.frames[:2]) == (1, None, ["pipe", "evalpipe"]), text


def test_functions_of_programs():
    text = run_guest("""
begin sh:evalpipe; for i in 1 2 3; do echo $i | cat > /dev/null; done; finish INT; echo ===
begin '/bin/busybox:dd_*'; dd if=/dev/zero count=3 of=/dev/null 2> /dev/null; finish INT; echo ===
begin -P c:malloc; leakdemo clean; libctest > /dev/null; finish INT; echo ===
begin -s 'cxxtest:main'; cxxtest > /dev/null; finish INT
""", 4 * "status 0\n")
    pipes, busybox, malloc, cxx = map(Output, text.split("===\n"))
    assert (pipes.functions, pipes.total("evalpipe", "sh")) == (1, 3)
    assert pipes.stacks[-1].frames[-3:] == ["main", "__stele_start", "_start"]
    assert busybox.total("dd_main", "dd") == 1
    assert malloc.functions > 5
    assert malloc.total("malloc", "libctest") > 0
    assert all("_start" in stack.frames for stack in malloc.stacks if stack.process == "libctest")
    [stack] = cxx.stacks
    assert re.search(r"^main\+0x5 __stele_start\+0x[0-9a-f]+ _start\+0x[0-9a-f]+$", " ".join(stack.frames))


def test_names_after_the_program_is_gone():
    """If another file has taken the path of the program, stackcount prints [unknown] for the program's frames, not names from the wrong file."""
    text = run_guest("""
cp /bin/leakdemo /tmp/demo; begin -U path_open; leakdemo clean; /tmp/demo clean; cp /bin/cxxtest /tmp/demo; finish INT
""", "status 0\n")
    output = Output(text)
    here = [stack.frames for stack in output.stacks if stack.process == "leakdemo"]
    gone = [stack.frames for stack in output.stacks if stack.process == "demo"]
    assert here and all(frames[-1] == "_start" for frames in here), text
    assert gone and all(set(frames) == {"[unknown]"} for frames in gone), text


def test_intervals():
    """With -i, stackcount prints in each interval only the calls since the previous interval. The intervals add up to all calls."""
    text = run_guest("""
begin -K -T -i 1 -D 3 PipeDevice::write; n=0
while kill -0 $pid 2> /dev/null && [ $n -lt 2000 ]; do echo x > /tmp/x; n=$((n + 1)); done; wait $pid; cat /tmp/out; echo ===
begin -K -i 1 PipeDevice::write; for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero bs=1 count=50 2> /dev/null | cat > /dev/null; sleep 0.2; done
finish INT
""", "status 0\n")
    timed, summed = map(Output, text.split("===\n"))
    assert len(timed.times) == 3
    assert summed.total("PipeDevice::write") == 400
    assert max(stack.count for stack in summed.stacks) <= 400


def test_folded():
    text = run_guest("""
stackcount -fd pipe_create > /tmp/a & pid=$!; until grep -q ' probed [0-9]*$' '#probe/functions'; do sleep 0.1; done; echo 1 | cat > /dev/null; kill -INT $pid; wait $pid; cat /tmp/a
stackcount -fK pipe_create > /tmp/a & pid=$!; until grep -q ' probed [0-9]*$' '#probe/functions'; do sleep 0.1; done; echo 1 | cat > /dev/null; kill -INT $pid; wait $pid; cat /tmp/a
""")
    both, kernel = text.splitlines()
    assert re.search(r"^sh;(?:\w+;)+evalpipe;pipe;-;system_call_entry;(?:\w+;)+sys_pipe2;pipe_create 1$", both)
    assert re.search(r"^system_call_entry;(?:\w+;)+sys_pipe2;pipe_create 1$", kernel)


def test_offsets_and_addresses():
    text = run_guest("""
begin -sv pipe_create; echo 1 | cat > /dev/null; finish INT; grep -E ' T (pipe_create|system_call_entry)$' '#mem/ksyms'
""", "status 0\n")
    text, _, symbols = text.partition("Detaching...\n")
    [stack] = Output(text + "Detaching...\n").stacks
    starts = {line.split(" T ")[1]: int(line[:16], 16) for line in symbols.splitlines()}
    for name, start in starts.items():
        [(frame, address)] = [(frame, int(address, 16)) for frame, address in zip(stack.frames, stack.addresses) if frame.startswith(name + "+")]
        assert frame == f"{name}+{address - start:#x}"
    assert stack.frames[0] == "pipe_create+0x5"


@pytest.mark.long
@pytest.mark.cpus(4)
def test_all_functions_under_load():
    """Probes all functions on four CPUs. Afterwards none is probed, and the system goes on."""
    text = run_guest("""
for i in 1 2 3 4; do while :; do echo a | cat; done > /dev/null & load="$load $!"; done
begin -K -r '^.*$'; wc -l < '#probe/functions'; probed; sleep 0.3; finish INT; probed
begin -c 1 -K '*'; kill -KILL $pid; wait $pid 2> /dev/null; until [ "$(probed)" = 0 ]; do sleep 0.1; done
begin -c 0 '*'; finish INT > /dev/null
kill $load; wait $load 2> /dev/null; probed; echo 1 | cat
""", "status 0\nstatus 0\n")
    functions, probed, rest = text.split("\n", 2)
    assert functions == probed
    shown, _, last = rest.rpartition("Detaching...\n")
    output = Output(shown + "Detaching...\n")
    assert (str(output.functions), last) == (functions, "0\n0\n1\n")
    assert output.total("sys_pipe2") > 0
    assert [line for line in output.lost if line.startswith("Lost")] == []
    counts = [stack.count for stack in output.stacks]
    assert counts == sorted(counts)


@pytest.mark.long
@pytest.mark.cpus(4)
def test_all_functions_with_both_stacks_in_little_memory():
    """In a guest with 64 MiB of memory, stackcount counts the calls of all functions with their kernel and user stacks, and loses no call.
    With 256 KiB of trace memory, stackcount loses calls and prints their number."""
    text = run_guest("""
for i in 1 2 3; do while :; do echo a | cat; done > /dev/null & load="$load $!"; done
begin '*'; sleep 0.5; kill $load; wait $load 2> /dev/null; kill -INT $pid; wait $pid; echo $?
tail -n 2 /tmp/out; probed; test "$(grep -c '^    [0-9]' /tmp/out)" -gt 1000; echo $?
echo 'limit 256K' > '#mem/kmemtrace/ctl'; begin '*'; ps > /dev/null; ls -lR / > /dev/null 2>&1; echo 1 | cat
kill -INT $pid; wait $pid; echo $?; tail -n 3 /tmp/out
""", options=("--mem", "64"))
    out = r"Left out: \d+ calls made by the tracer itself\nDetaching...\n"
    assert re.search(rf"^0\n{out}0\n0\n1\n0\nLost: \d+ calls not counted.*\n{out}$", text)


@pytest.mark.cpus(2)
def test_on_this_cpu_only():
    text = run_guest("""
for cpu in 0 1; do begin -K -c $cpu tick; sleep 1; finish INT; done
stackcount -c 99 -D 1 tick; echo $?
""", "status 0\nstatus 0\nstackcount: probes: Invalid argument: \"99\": cpu takes a number from 0 to 63\n")
    assert text.count("\n  tick\n") == 2
    assert text.endswith("Detaching...\n1\n")


def test_ends_with_its_output():
    text = run_guest("""
stackcount -K -i 1 tick 2> /tmp/err | head -n 1; cat /tmp/err; until [ "$(probed)" = 0 ]; do sleep 0.1; done; echo none
""")
    assert text.splitlines()[1:] == ["stackcount: the output cannot be written", "none"]


def test_interrupted_at_the_console():
    with Console() as console:
        console.read_until(Console.PROMPT)
        console.type("stackcount -K 'pipe*'\n")
        assert "Tracing" in console.read_until("to end.")
        console.type("\x03")
        assert "Detaching..." in console.read_until("Detaching...")
        console.type("grep -c ' probed [0-9]' '#probe/functions'; echo end$((6 * 7))\n")
        assert re.search(r"\b0\s+end42", console.read_until("end42"))


def test_what_cannot_be():
    """The exit status is 2 after bad arguments. It is 1 if a program, a process or a probe type does not exist. If no function matches, stackcount
    prints the message of the original stackcount (bcc), and the status is 0."""
    bad = ["", "-x f", "-p x f", "-p 0 f", "-i 0 f", "-i x f", "-D 0 f", "-c -1 f", "f g", "-K -U f", "--nosuch f", "-i"]
    script = "".join(f"stackcount {arguments} > /tmp/out 2> /tmp/err; echo $? $(wc -c < /tmp/out) $(grep -c '^usage: stackcount' /tmp/err) "
                     "$(grep stackcount: /tmp/err | tail -n 1)\n" for arguments in bad)
    errors = {"t:sched:sched_switch": "no kernel tracepoints", "u:pthread:pthread_create": "no USDT tracepoints", "x:y:z": "Type must be",
              "p:a:b:c": "Too many", "nosuch:f": "unable to find library or program nosuch", "/nosuch:f": "unable to find", "-p 999 f": "no process 999",
              "-p 999 c:malloc": "no process 999", "-r '('": "bad regular expression", "sh:": "names no function"}
    script += "".join(f"stackcount {arguments} 2>&1; echo $?\n" for arguments in errors)
    script += "stackcount nosuch; echo $?; stackcount sh:nosuch; echo $?; stackcount probe_called; echo $?; stackcount -h | head -n 1; probed"
    result = guest(PRELUDE + script)
    lines = result.stdout.splitlines()
    for arguments, line in zip(bad, lines):
        assert re.search(r"^2 0 1 stackcount: .", line), arguments
    rest = lines[len(bad):]
    for (arguments, message), line, status in zip(errors.items(), rest[0::2], rest[1::2]):
        assert message in line, arguments
        assert status == "1", arguments
    assert rest[2 * len(errors):] == ['0 functions matched by "nosuch". Exiting.', "0", '0 functions matched by "sh:nosuch". Exiting.', "0",
                                              '0 functions matched by "probe_called". Exiting.', "0",
                                              "usage: stackcount [-h] [-p PID] [-c CPU] [-i INTERVAL] [-D DURATION] [-T] [-r]", "0"]
    assert result.stderr == "stackcount: 1 that cannot be probed match\n"
