"""mksh, the shell of the console: its own tests (check.t), and line editing and job control at a terminal."""
import fcntl
import os
import pty
import subprocess
import termios

import pytest

import mksh_cases
from guest import BUILD, guest, leaktest

pytestmark = pytest.mark.cpus(1)

CHECK_T = BUILD / "user/ports/mksh/out/check.t"
NATIVE = BUILD / "ports/native/mksh/mksh"
EVERY = 12  # the short form runs every 12th case
LEAK_EVERY = 4  # the leak test's load is every 4th case

# Cases that are not run, with the reason. Cases for other systems and other builds of mksh are not listed: cases_for() leaves them out by
# their categories.
SKIPPED = dict.fromkeys(("utf8bom-2", "fd-cloexec-1", "fd-cloexec-2"), "runs Perl, which is not there")


def cases_for(system):
    """Returns the cases of check.t that apply to our build of mksh on `system`."""
    return [case for case in mksh_cases.parse(CHECK_T) if case.name not in SKIPPED and case.fits(mksh_cases.CATEGORIES | {f"os:{system}"})]


def outcomes_in_guest(cases, folder, seconds):
    run = mksh_cases.Run(cases, folder, "/host", "/bin/mksh", "/tmp/check")
    result = guest("sh /host/all.sh > /host/output", "--share", str(folder), "--timeout", str(seconds))
    assert result.status == 0, result
    return run.outcomes((folder / "output").read_bytes())


def outcomes_here(cases, folder):
    """Runs the cases on the host, with a controlling terminal, which some of the cases need. Returns {case: outcome}."""
    run = mksh_cases.Run(cases, folder, folder, NATIVE, folder / "work", "timeout --foreground -s KILL")
    master, slave = pty.openpty()
    with subprocess.Popen(["dash", folder / "all.sh"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
                          preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0)) as process:
        output = process.stdout.read()
    os.close(master)
    os.close(slave)
    return run.outcomes(output)


def wrong(cases, outcomes):
    """Returns {name: errors} of the cases that failed or did not run."""
    faults = {case.name: case.faults(outcomes[case]) if case in outcomes else ["did not run"] for case in cases}
    return {name: found for name, found in faults.items() if found}


def quick_cases():
    return [case for case in cases_for("stele") if "sleep" not in case.fields.get("stdin", "")]


def test_some_cases(tmp_path):
    cases = quick_cases()[::EVERY]
    assert len(cases) > 40
    assert wrong(cases, outcomes_in_guest(cases, tmp_path, 120)) == {}


@pytest.mark.long
def test_all_cases(tmp_path):
    """All cases that are not skipped pass on the host and in the guest."""
    here, there = tmp_path / "here", tmp_path / "guest"
    here.mkdir()
    there.mkdir()
    cases = cases_for("stele")
    assert wrong(cases, outcomes_here(cases, here)) == {}
    assert wrong(cases, outcomes_in_guest(cases, there, 900)) == {}


# Runs the script with all cases to the end. Then starts the script again, and kills it and its child processes when half of the cases have begun.
LEAK_LOAD = """sh /host/all.sh > /dev/null 2>&1
setsid sh /host/all.sh > /dev/null 2>&1 < /dev/null &
until [ -d /tmp/check/{half} ]; do usleep 1000; done
kill -9 -$! || kill -9 $!
wait
rm -rf /tmp/check"""


@pytest.mark.long
@pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)])
def test_leaves_nothing_behind(tmp_path, number):
    cases = quick_cases()[::LEAK_EVERY]
    mksh_cases.Run(cases, tmp_path, "/host", "/bin/mksh", "/tmp/check")
    result = leaktest(LEAK_LOAD.format(half=len(cases) // 2), "--share", str(tmp_path), "--runs", "8", "--repeat", "3", "--timeout", "3600")
    assert result.status == 0, result


def test_history_and_completion(terminal):
    terminal.type("echo first\r")
    terminal.wait_for(r"^first\n#$")
    terminal.type("echo second\r")
    terminal.wait_for(r"^second\n#$")
    # Two times "arrow up" shows the first command. Two times "arrow left" moves the cursor to the s of "first", where the test types X.
    terminal.type("\x1b[A\x1b[A")
    terminal.wait_for(r"^# echo first\s*\Z")
    terminal.type("\x1b[D\x1b[DX\r")
    terminal.wait_for(r"^firXst\n#$")
    # Completion works for the name of a command. It also works for a path of a device, and leaves the # of the path unquoted.
    terminal.type("kmemt\t")
    terminal.wait_for(r"^# kmemtop\s*\Z")
    terminal.type("\x15cat #mem/kmemst\t")
    terminal.wait_for(r"^# cat #mem/kmemstat\s*\Z")
    terminal.type("| grep -c NAME\r")
    terminal.wait_for(r"^1\n#$")
    # Completion lists names with the same beginning.
    terminal.type("ls #mem/kmem\t")
    terminal.wait_for(r"^kmemstat +kmemtrace/\n# ls #mem/kmem\s*\Z")


def test_job_control(terminal):
    """Controls a job with ^Z, bg, jobs, fg and ^C. The job prints "continued" on SIGCONT. ^C goes to the shell until fg has given the
    terminal to the job. So after fg, the test waits for "continued" before it types ^C. fg prints the job's command earlier, so the test
    cannot wait for that."""
    terminal.type("echo 'trap \"echo continued\" CONT; echo running' > /tmp/job\r")
    terminal.type("echo 'while :; do sleep 0.1; done' >> /tmp/job\r")
    terminal.type("sh /tmp/job\r")
    terminal.wait_for(r"^running$")
    terminal.type("\x1a")
    terminal.wait_for(r"Stopped .*\n#$")
    terminal.type("bg\r")
    terminal.wait_for(r"^\[1\] .*sh /tmp/job\n(# )?continued$")
    terminal.type("jobs\r")
    terminal.wait_for(r"^\[1\] \+ Running .*\n#$")
    terminal.type("fg; echo status $?\r")
    terminal.wait_for(r"^# fg.*\n.*sh /tmp/job\ncontinued$")
    terminal.type("\x03")
    terminal.wait_for(r"^(status 130\n)?#$")


def test_devices(terminal):
    """A path #name/… works in every command. In a folder of a device, `cd ..` goes to the parent folder in the device."""
    terminal.type("echo start > #mem/kmemtrace/pipe; ls | cat > /dev/null; echo stop > #mem/kmemtrace/pipe\r")
    terminal.wait_for(r"\n#$")
    terminal.type("head -n 1 #mem/kmemtrace/pipe\r")
    terminal.wait_for(r"^kmemtrace pipe state stopped")
    terminal.type("clear; [[ -e #mem/free ]] && cd #mem/kmemtrace && pwd && cd .. && pwd && ls kmemstat; cd\r")
    terminal.wait_for(r"^#mem/kmemtrace\n#mem/?\nkmemstat\n#$")
