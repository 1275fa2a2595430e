"""mksh, the shell of the console: its own tests (check.t), and how a person works with it at a terminal."""
import fcntl
import os
import pty
import subprocess
import termios

import pytest

import mksh_cases
from guest import BUILD, guest, leaktest
from terminal import Terminal

pytestmark = pytest.mark.cpus(1)

CHECK_T = BUILD / "user/ports/mksh/out/check.t"
NATIVE = BUILD / "ports/native/mksh/mksh"
EVERY = 12  # of the cases are in the short form
LEAK_EVERY = 4  # are the load of the leak test

# Cases that are not run. Those of other systems and other builds of mksh are left out by their categories.
SKIPPED = dict.fromkeys(("utf8bom-2", "fd-cloexec-1", "fd-cloexec-2"), "runs Perl, which is not there")


def cases_for(system):
    """The cases for mksh as it is built here."""
    return [case for case in mksh_cases.parse(CHECK_T) if case.name not in SKIPPED and case.fits(mksh_cases.CATEGORIES | {f"os:{system}"})]


def outcomes_in_guest(cases, folder, seconds):
    run = mksh_cases.Run(cases, folder, "/host", "/bin/mksh", "/tmp/check")
    result = guest("sh /host/all.sh > /host/output", "--share", str(folder), "--timeout", str(seconds))
    assert result.status == 0, result
    return run.outcomes((folder / "output").read_bytes())


def outcomes_here(cases, folder):
    """With a controlling terminal, which some cases want."""
    run = mksh_cases.Run(cases, folder, folder, NATIVE, folder / "work", "timeout --foreground -s KILL")
    master, slave = pty.openpty()
    with subprocess.Popen(["dash", folder / "all.sh"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
                          preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0)) as process:
        output = process.stdout.read()
    os.close(master)
    os.close(slave)
    return run.outcomes(output)


def wrong(cases, outcomes):
    """{case: error}"""
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
    """The same cases pass in the guest and on the host; each skipped one has its reason."""
    here, there = tmp_path / "here", tmp_path / "guest"
    here.mkdir()
    there.mkdir()
    cases = cases_for("stele")
    assert wrong(cases, outcomes_here(cases, here)) == {}
    assert wrong(cases, outcomes_in_guest(cases, there, 900)) == {}


# To its end, then killed in the middle with all that it started.
LEAK_LOAD = """sh /host/all.sh > /dev/null 2>&1
setsid sh /host/all.sh > /dev/null 2>&1 < /dev/null & sleep 0.5; kill -9 -$! || kill -9 $!; wait
rm -rf /tmp/check"""


@pytest.mark.long
@pytest.mark.parametrize("number", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_leaves_nothing_behind(tmp_path, number):
    mksh_cases.Run(quick_cases()[::LEAK_EVERY], tmp_path, "/host", "/bin/mksh", "/tmp/check")
    result = leaktest(LEAK_LOAD, "--share", str(tmp_path), "--runs", "8", "--repeat", "3", "--timeout", "3600")
    assert result.status == 0, result


@pytest.fixture(name="terminal")
def one_terminal():
    with Terminal() as terminal:
        terminal.wait_for(r"^#")
        yield terminal


def test_history_and_completion(terminal):
    terminal.type("echo first\r")
    terminal.wait_for(r"^first\n#$")
    terminal.type("echo second\r")
    terminal.wait_for(r"^second\n#$")
    # Two lines back by arrows, into the line, and changed there.
    terminal.type("\x1b[A\x1b[A")
    terminal.wait_for(r"^# echo first\s*\Z")
    terminal.type("\x1b[D\x1b[DX\r")
    terminal.wait_for(r"^firXst\n#$")
    # A command, and a path of a device, which keeps its #.
    terminal.type("kmemt\t")
    terminal.wait_for(r"^# kmemtop\s*\Z")
    terminal.type("\x15cat #mem/kmemst\t")
    terminal.wait_for(r"^# cat #mem/kmemstat\s*\Z")
    terminal.type("| grep -c NAME\r")
    terminal.wait_for(r"^1\n#$")
    # Names with the same beginning are listed.
    terminal.type("ls #mem/kmem\t")
    terminal.wait_for(r"^kmemstat +kmemtrace/\n# ls #mem/kmem\s*\Z")


def test_job_control(terminal):
    terminal.type("sh -c 'echo running; sleep 1000'\r")
    terminal.wait_for(r"^running$")
    terminal.type("\x1a")
    terminal.wait_for(r"Stopped .*\n#$")
    terminal.type("bg\r")
    terminal.wait_for(r"^\[1\] .*sleep 1000.*\n#$")
    terminal.type("jobs\r")
    terminal.wait_for(r"^\[1\] \+ Running .*\n#$")
    terminal.type("fg; echo status $?\r")
    terminal.wait_for(r"^# fg.*\n.*sleep 1000")
    terminal.type("\x03")
    terminal.wait_for(r"^(status 130\n)?#$")


def test_devices(terminal):
    """The purpose of the rule for #name/; the reason of a failed write; a device is a root of its
    own."""
    terminal.type("echo start > #mem/kmemtrace/pipe; ls | cat > /dev/null; echo stop > #mem/kmemtrace/pipe\r")
    terminal.wait_for(r"\n#$")
    terminal.type("head -n 1 #mem/kmemtrace/pipe\r")
    terminal.wait_for(r"^kmemtrace pipe state stopped")
    terminal.type("clear; [[ -e #mem/free ]] && cd #mem/kmemtrace && pwd && cd .. && pwd && ls kmemstat; cd\r")
    terminal.wait_for(r"^#mem/kmemtrace\n#mem/?\nkmemstat\n#$")
