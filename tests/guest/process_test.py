"""Processes: what /proc says about them, and that no objects are left when they have ended."""
import re
import subprocess

import pytest

from guest import BUILD, checked, guest, live_counts

CACHES = ["task", "process", "address_space", "vm_region", "chan", "fd_table", "pipe", "pipe_buffer"]


@pytest.mark.cpus(4)
def test_no_memory_does_not_end_process_1():
    """When memory is used up, the kernel may kill any process, even the script's shell. But process 1 goes on, and ends the guest with the
    shell's status."""
    script = "sh -c 'i=0; while [ $i -lt 300 ]; do i=$((i + 1)); sleep 3 & done; wait'; exit 3"
    result = guest(script, "--mem", "32M", "--timeout", "30")
    assert result.status in (2, 3, 128 + 9), result


def test_status_names_the_program():
    """/proc/PID/status gives the path and the build id of the ELF file that the process executes. For a script, this is the interpreter's file."""
    long = "/tmp/" + "d" * 60 + "/" + "p" * 60
    output = checked("mkdir $D; cp /bin/sh $0; printf '#!/bin/sh\\ncat /proc/$$/status\\n' > /tmp/x; chmod +x /tmp/x\n"
                     "cat /proc/self/status; /tmp/x; $0 -c 'cat /proc/$$/status; :'".replace("$0", long).replace("$D", long.rpartition("/")[0]))
    paths, builds = (re.findall(rf"(?m)^{key}:\t(.*)$", output) for key in ("Path", "Build"))
    assert paths == ["/bin/cat", "/bin/sh", long]
    notes = [subprocess.run(["readelf", "-n", BUILD / "user/bin" / name], capture_output=True, text=True, check=True).stdout for name in ("busybox", "dash")]
    assert builds[1] == builds[2]
    for build, note in zip(builds, notes):
        assert f"Build ID: {build}\n" in note


def test_a_name_is_printable():
    """Would find that the file name of a program adds lines to files that have names of processes and tasks, or controls the terminal."""
    output = checked(r"""name=$(printf '/tmp/a\nUid:\t0\t\033b'); cp /bin/sh "$name"; "$name" -c 'cat /proc/$$/status | head -n 2; cat "#debug/stacks"; :'""")
    name = "a?Uid:?0??b"
    assert output.startswith(f"Name:\t{name}\nState:"), output
    assert re.search(rf"^pid \d+ {re.escape(name)}: ", output, re.M) and "\033" not in output, output


def check_leaves_nothing(command, *options):
    """Runs the command twice. Checks that every cache in CACHES has as many live objects after the second run as after the first."""
    show = "while ps | grep -q '[p]roctest'; do sleep 0.1; done; echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat"
    result = guest(f"{command}; {show}; {command}; {show}", "--timeout", "120", *options)
    assert result.status == 0, result
    before, after = ({cache: table[cache] for cache in CACHES} for table in live_counts(result.stdout))
    assert before == after


def test_own_memory_leaves_out_program_text():
    lines = re.findall(r"^Vm(RSS|Own):\t *(\d+) kB$", guest("cat /proc/self/status").stdout, re.M)
    assert [name for name, _ in lines] == ["RSS", "Own"]
    resident, own = (int(size) for _, size in lines)
    assert 0 < own < resident


def test_virtual_size_counts_what_is_mapped():
    """VmSize and the size in /proc/PID/stat count all mapped memory. The stack has 8 MiB, of which only a few pages are resident."""
    output = guest("cat /proc/self/status /proc/self/stat").stdout
    size, resident = (int(re.search(rf"^{name}:\t *(\d+) kB$", output, re.M)[1]) for name in ("VmSize", "VmRSS"))
    stat = re.search(r"^\d+ \(cat\) .*$", output, re.M)[0].split()
    assert (8 << 10) < size < (64 << 10) and 0 < resident < 4096, output
    assert int(stat[22]) == size << 10 and abs(int(stat[23]) - resident // 4) < 16, output


@pytest.mark.cpus(4)
def test_forks_leave_nothing():
    check_leaves_nothing("proctest forks 1000")


@pytest.mark.cpus(4)
def test_every_kind_of_end_leaves_nothing():
    check_leaves_nothing("proctest fork exec signals kill faults descriptors pointers registers > /dev/null 2>&1")


@pytest.mark.cpus(4)
def test_out_of_memory_leaves_nothing():
    check_leaves_nothing("proctest exhaust 2", "--mem", "24M")


@pytest.mark.cpus(1)
def test_a_name_cannot_write_escapes_into_the_log():
    script = r"""d=$(printf '/tmp/\033[31mred\302\233\001'); cp /bin/proctest "$d"; "$d" faults > /dev/null; true"""
    result = guest(script, log=False)
    assert "general protection fault" in result.stderr and "?[31mred???" in result.stderr, result
    assert not re.search(r"[^\t\r\n -~]", result.stderr), result


@pytest.mark.cpus(1)
@pytest.mark.icount
def test_a_user_cannot_flood_the_log():
    """The programs of users have 100 lines in the kernel's log at once, and get 10 more each second. Then a line has the number of missing lines.
    Root's programs have no limit."""
    result = guest("""
proctest as 65534 sh -c 'i=0; while [ $i -lt 20 ]; do i=$((i + 1)); proctest faults > /dev/null; done'
until dmesg | grep -q 'are missing here'; do proctest as 65534 proctest faults > /dev/null; done
echo root > /dev/cons; proctest faults > /dev/null""", "--icount", log=False)
    users, roots = (len(re.findall(r"pid \d+ proctest: ", part)) for part in result.stderr.rsplit("root", 1))
    assert re.search(r"\d+ lines about programs of users are missing here", result.stderr), result
    assert 20 < roots < 100 < users < 8 * roots, result  # users had 20 runs and more


@pytest.mark.cpus(1)
def test_a_program_that_may_only_be_executed():
    """Users can execute a program of mode 0111, but not read it."""
    script = "cp /bin/busybox /tmp/echo; chmod 111 /tmp/echo; /tmp/echo it runs; proctest helper user /tmp/echo; echo $?"
    result = guest(script)
    assert result.stdout.splitlines() == ["it runs", "as a user", "0"], result


def test_fault_is_named():
    result = guest("proctest faults", log=False)
    assert result.status == 0, result
    assert re.search(r"pid \d+ proctest: page fault at 0x[0-9a-f]+ ip 0x[0-9a-f]+", result.stderr), result
