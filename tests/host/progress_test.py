"""tools/stele/progress.py: the line that says what a tool does. On a pseudo terminal it is a bar, which other output does not damage and which is gone
at the end; elsewhere it is a line after a second, and one every ten seconds."""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from stele import progress

TOOLS = pathlib.Path(progress.__file__).parent.parent
TOOL = """
import sys, time
sys.path.insert(0, {tools!r})
{missing}
from stele import entry, progress
progress.FIRST, progress.SECONDS, progress.TICK = {first}, 0.2, 0.01
def main():
    with progress.Progress("tool") as shown:
        {body}
    print("end", flush=True)
entry.run(main, "tool")
"""
BODY = 'shown.phase("steps", 4); [(shown.step(), time.sleep(0.15)) for _ in range(3)]; progress.to_standard_error(b"other\\n"); time.sleep(0.2)'


def tool(body=BODY, missing="", first=0.05):
    return [sys.executable, "-c", TOOL.format(tools=str(TOOLS), body=body, missing=missing, first=first)]


def on_a_terminal(command):
    """Returns what the command writes to a terminal of 80 columns."""
    process, fd = pty.fork()
    if process == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execvp(command[0], command)
    said = b""
    while True:
        try:
            said += os.read(fd, 65536)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.close(fd)
    return said.decode()


def test_plain_lines():
    run = subprocess.run(tool(), capture_output=True, text=True, check=True)
    assert run.stdout == "end\n" and "other\n" in run.stderr
    lines = [line for line in run.stderr.splitlines() if line != "other"]
    assert all(re.fullmatch(r"tool: steps (0/4, 0 s|[1-3]/4, [01] s, \d+ s left)", line) for line in lines), run.stderr
    assert 2 <= len(lines) <= 6 and "steps 3/4" in lines[-1], run.stderr


def test_a_quick_tool_says_nothing():
    run = subprocess.run(tool('shown.phase("steps", 4)', first=5), capture_output=True, text=True, check=True)
    assert (run.stderr, run.stdout) == ("", "end\n")


def test_a_bar_on_a_terminal():
    pytest.importorskip("tqdm")
    said = on_a_terminal(tool())
    assert said.lstrip("\r").startswith("tool: steps 0/4 |")
    assert re.search(r"tool: steps 3/4 \|.*\| 00:00, .* left", said)
    lines = [line.rpartition("\r")[2].rstrip() for line in said.split("\r\n")]
    assert lines == ["other", "end", ""]


def test_a_terminal_without_tqdm():
    said = on_a_terminal(tool(missing='sys.modules["tqdm"] = None'))
    assert re.search(r"^tool: steps \d/4, 0 s", said, re.M) and "|" not in said


def test_a_phase_of_seconds_passes_by_itself():
    run = subprocess.run(tool('shown.phase("seconds", 5, by_time=True); time.sleep(1.3)'), capture_output=True, text=True, check=True)
    assert re.search(r"^tool: seconds 1/5, 1 s, \d s left$", run.stderr, re.M), run.stderr


@pytest.mark.parametrize("size", (1, 5, 13, 100))
def test_words_are_counted_in_parts_of_any_size(size):
    found, output = [], b"leaktest run 0 12\nleaktest look 1\nleaktest run 1 3\nleaktest run 0"
    count = progress.counter(b"leaktest run ", found.append)
    for at in range(0, len(output), size):
        count(output[at:at + size])
    assert sum(found) == 3
