"""Helpers of tests that examine guests and cores with gdb's commands."""
import contextlib
import functools
import re
import subprocess
from dataclasses import dataclass

import guest as guests
from guest import ROOT, sections_of, text, tool

# A shell function: `wait_until_it_sleeps PID` waits until the process PID, which executes the program
# `sleep`, is in a sleeping state.
WAIT = """
wait_until_it_sleeps() { until read -r line < /proc/$1/stat; case "$line" in *"(sleep) S"*) ;; *) false ;; esac; do :; done; }
"""


def gdb(core, *commands):
    """Runs the commands on a core. Returns {command: output}."""
    return gdb_on(("--core", core), *commands)


def gdb_on(target, *commands):
    """Runs the commands in gdb. `target` has the options for scripts/gdb. Returns {command: output}."""
    words = [word for command in commands for word in ("-ex", f"echo == {command}\\n", "-ex", command)]
    result = tool("gdb", *target, "--", "-batch", *words)
    assert (result.status, result.stderr) == (0, "")
    return sections_of(result.stdout)


def whatis(*words):
    return tool("whatis", *words)


@dataclass
class Waiting:
    """A guest whose script has printed `== ready` and waits."""

    said: dict  # the script's output: {section: text}
    log: str  # the kernel's log
    number: str  # for the option --guest of scripts/gdb, scripts/dump and scripts/whatis


@contextlib.contextmanager
def waiting(script, tmp_path, *options):
    log = tmp_path / "log"
    command = [str(ROOT / "scripts/guest"), "--no-build", "--smp", str(guests.cpus), "--port", "tests", *options, "--debug", "--log", str(log), "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            lines = []
            for line in run.stdout:
                lines.append(text(line))
                if line == b"== ready\n":
                    break
            yield Waiting(sections_of("".join(lines)), log.read_text(errors="replace"), str(run.pid))
        finally:
            run.terminate()


def objects_in(dump):
    return [int(address, 16) for address in re.findall(r"^\t(0x[0-9a-f]+) size", dump, re.M)]


@functools.cache
def symbols(kernel):
    lines = subprocess.run(["nm", kernel], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1]: int(line.split()[0], 16) for line in lines}


def group_of(dump, function):
    """Returns the addresses of the objects whose allocating stack begins with `function`, in the order of the dump."""
    groups = [group for group in dump.split("\n\n")[1:] if f"\n\t{function}+" in f"\n{group.splitlines()[1]}"]
    assert groups, (function, dump)
    return [address for group in groups for address in objects_in(group)]
