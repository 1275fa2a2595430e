"""^C ends each tool with one line and the status 130, and leaves no process and no file behind. So does ^C in make.

Each tool runs on a pseudo terminal of its own, where the test types ^C, as a person does. QEMU is a script that starts, and then does not end."""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

from guest import ROOT

CTRL_C = b"\x03"
INTERRUPTED = 130
SECONDS = 60
# Says that it has started; then writes to the kernel's log until it is killed.
QEMU = """#!{python}
import os, re, sys, time
if "poweroff" in sys.argv:
    sys.exit(1)
port = open(re.search(r"id=com1,path=(\\S+)", " ".join(sys.argv)).group(1), "wb", buffering=0)
with open(os.environ["STARTED"], "w") as started:
    started.write("x")
while True:
    port.write(b"kernel\\n")
    time.sleep(0.05)
"""
# make's own goals are left out: what a hunt builds first is built. `slow` is something that takes long to build.
MAKEFILE = """HUNTS := leaktest lost-at leaksweep leakfuzz stress load
BASE ?= build
SMP := 1
MEM := 512M
MINUTES := 1
all:
ports:
report-page:
slow: all
\t@echo x > $$STARTED; sleep 1000
include hunts.mk
{proof}
"""


@pytest.fixture
def world(tmp_path):
    """Returns the environment of a tool: a tree with the tools, a build folder, a TMPDIR, and the QEMU above."""
    for name in ("tree/build/variant/debug", "tree/build/ports", "tmp", "bin"):
        (tmp_path / name).mkdir(parents=True)
    for folder in ("scripts", "tools", "kern/abi"):
        shutil.copytree(ROOT / folder, tmp_path / "tree" / folder, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for folder in ("tree/build", "tree/build/variant/debug"):
        shutil.copy("/bin/true", tmp_path / folder / "stele.elf")
        (tmp_path / folder / "initrd.cpio").write_bytes(b"\0" * 8192)
    (tmp_path / "tree/build/ports/tests.cpio").write_bytes(b"\0" * 512)
    qemu = tmp_path / "bin/qemu-system-x86_64"
    qemu.write_text(QEMU.format(python=sys.executable))
    qemu.chmod(0o755)
    tests_mk = (ROOT / "tests/tests.mk").read_text()
    proof = tests_mk[tests_mk.index("proof: all"):].partition("\n")
    # A shell's job in the background ignores signals, and so would the tools.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    (tmp_path / "tree/Makefile").write_text(MAKEFILE.format(proof=f"proof: all\n{proof[2]}"))
    shutil.copy(ROOT / "hunts.mk", tmp_path / "tree")
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "STELE_BUILD": str(tmp_path / "tree/build"), "TMPDIR": str(tmp_path / "tmp"), "ACCEL": "tcg",
            "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "STARTED": str(tmp_path / "started")}


class Terminal:
    """A command on a pseudo terminal."""

    def __init__(self, command, world):
        os.mkfifo(world["STARTED"])
        tree = pathlib.Path(world["STELE_BUILD"]).parent
        self.process, self.fd = pty.fork()
        if self.process == 0:
            os.chdir(tree)
            os.execvpe("sh", ["sh", "-c", f"exec {command}"], world)

    def read_to_end(self):
        said, end = b"", time.monotonic() + SECONDS
        while select.select([self.fd], [], [], max(end - time.monotonic(), 0))[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # no process has the terminal open
                data = b""
            if not data:
                return said.decode()
            said += data
        os.killpg(self.process, signal.SIGKILL)
        raise AssertionError(f"it does not end: {said.decode()}")

    def status(self):
        _, status = os.waitpid(self.process, 0)
        os.close(self.fd)
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def lines_shown(said):
    """Returns the lines that the terminal shows at the end; a progress bar is gone."""
    lines = [line.rpartition("\r")[2] for line in said.split("\r\n")]
    return [line for line in lines if line.strip()]


def running(world):
    """Returns the command lines of the processes with this environment."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={world['TMPDIR']}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            continue
    return found


def check_nothing_is_left(world):
    end = time.monotonic() + SECONDS
    while running(world) and time.monotonic() < end:  # init has not yet reaped what was killed
        time.sleep(0.05)
    assert running(world) == []
    assert os.listdir(world["TMPDIR"]) == []
    assert not list(pathlib.Path(world["STELE_BUILD"]).glob("*/status.*"))


def wait_for_the_guest(world):
    started = os.open(world["STARTED"], os.O_RDONLY | os.O_NONBLOCK)
    assert select.select([started], [], [], SECONDS)[0], "it does not start"
    os.close(started)


TOOLS = {
    "guest": "scripts/guest --no-build -c true", "leaktest": "scripts/leaktest --no-build true",
    "lost-at": "scripts/lost-at --no-build true", "leaksweep": "scripts/leaksweep --no-build true",
    "leakfuzz": "scripts/leakfuzz --no-build --variant ''", "stress": "scripts/stress --variant ''", "load": "scripts/load",
}
GOALS = {"leaktest": "CMD=true", "lost-at": "CMD=true", "leaksweep": "CMD=true", "leakfuzz": "", "stress": "VARIANT=debug", "load": "", "proof": "MINUTES=1"}
COMMANDS = {**TOOLS, **{f"make {goal}": f"make {goal} {words}" for goal, words in GOALS.items()}}


@pytest.mark.parametrize("name", COMMANDS)
def test_control_c(world, name):
    terminal = Terminal(COMMANDS[name], world)
    wait_for_the_guest(world)
    os.write(terminal.fd, CTRL_C)
    said, status = terminal.read_to_end(), terminal.status()
    tool = {"make proof": "guest"}.get(name, name.removeprefix("make "))
    before, typed, after = said.rpartition("^C")
    assert typed and "Traceback" not in before, said
    assert [line for line in lines_shown(after) if line != "kernel"] == [f"{tool}: interrupted"], said
    assert status == INTERRUPTED
    check_nothing_is_left(world)


@pytest.mark.parametrize("number, status", ((signal.SIGTERM, 143), (signal.SIGHUP, 129)))
@pytest.mark.parametrize("name", TOOLS)
def test_other_signals(world, name, number, status):
    """The signal reaches the tool alone, and the tool ends its programs."""
    os.mkfifo(world["STARTED"])
    with subprocess.Popen(["sh", "-c", f"exec {TOOLS[name]}"], env=world, cwd=pathlib.Path(world["STELE_BUILD"]).parent, stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, text=True) as tool:
        wait_for_the_guest(world)
        tool.send_signal(number)
        said = tool.stderr.read()
    assert (tool.returncode, re.sub("kernel\n", "", said)) == (status, "")
    check_nothing_is_left(world)


@pytest.mark.parametrize("name", ("leaktest", "leaksweep", "stress"))
def test_a_tool_that_is_killed_leaves_no_guest(world, name):
    os.mkfifo(world["STARTED"])
    with subprocess.Popen(["sh", "-c", f"exec {TOOLS[name]}"], env=world, cwd=pathlib.Path(world["STELE_BUILD"]).parent, stderr=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL) as tool:
        wait_for_the_guest(world)
        tool.kill()
    check_nothing_is_left(world)


def test_control_c_while_something_is_built(world):
    """make would print a line for each thing that it is making."""
    terminal = Terminal("tools/stele/quiet_make.py leaktest make -s slow", world)
    wait_for_the_guest(world)
    os.write(terminal.fd, CTRL_C)
    said, status = terminal.read_to_end(), terminal.status()
    after = said.rpartition("^C")[2]  # before it there may be a progress bar
    assert (lines_shown(after), status) == (["leaktest: interrupted"], INTERRUPTED)
    check_nothing_is_left(world)


def test_a_signal_right_after_a_temporary_file_was_made(tmp_path):
    """The signal comes before the script knows the name of the file."""
    script = f"""
import os, signal, sys, tempfile
sys.path.insert(0, {str(ROOT / "tools")!r})
from stele import entry
def main():
    tempfile.mkstemp(prefix=entry.PREFIX, dir=entry.temporary_folder())
    tempfile.mkdtemp(prefix=entry.PREFIX, dir=entry.temporary_folder())
    os.kill(os.getpid(), signal.SIGTERM)
entry.run(main, "script")
"""
    run = subprocess.run([sys.executable, "-c", script], env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, check=False)
    assert (run.returncode, run.stderr, os.listdir(tmp_path)) == (143, b"", [])
