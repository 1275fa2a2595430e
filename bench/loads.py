"""Whole loads: the cost of a shell's work, untraced, and the additional cost of traces.

Counted under -icount on one CPU, in whole guests: the instructions at power-off, minus those of a guest that does the same without the
load, so that boot, the start of tracing and the shell's own start do not count. Such a guest executes the same instructions each time
(docs/testing.md). A change anywhere in the image does change a count, since it moves memory, and with it the hashed addresses, and the
ticks of the timer.
"""
import re
import subprocess
from dataclasses import dataclass

from counts import LOAD_ROWS, ROOT

CTL = "'#mem/kmemtrace/ctl'"
LOADS = {"pipeline": "ls / | cat > /dev/null", "file": "echo something > /tmp/file; read line < /tmp/file"}
# Commands that run before the load. A round of each load runs even earlier, so that the shell has allocated its permanent memory. A
# stopped trace has the records of a round.
ROUND = "; ".join(LOADS.values())
STATES = {
    "untraced": "",
    "on": f"echo start > {CTL}",
    "stopped": f"echo start > {CTL}; {ROUND}; echo stop > {CTL}",
    "sampled": f"echo start sample=512K > {CTL}",
}
NO_FLAG_TESTS = "no_flag_tests"  # configs/
ROUNDS = 300
# The rounds of the test, few enough for ten seconds of one processor. Its rows differ from those of the table, since fewer processes
# leave fewer contexts to search.
SHORT_ROUNDS = {"pipeline": 60, "file": 60}
SHORT_STATES = ("on", "stopped", "sampled")


@dataclass(frozen=True)
class Guest:
    """A guest: the build's variant ("": the configuration of `make run`), a QEMU plugin, memory, words on the kernel's command line,
    CPUs, programs of user/ports; built first or not."""

    variant: str = ""
    plugin: str = ""
    memory: str = "512M"
    cmdline: str = ""
    cpus: int = 1
    ports: tuple = ()
    build: bool = True

    def run(self, script, timeout=600):
        """(its standard output, instructions at power-off)."""
        command = [str(ROOT / "scripts/guest"), "--icount", "--smp", str(self.cpus), "--mem", self.memory, "--timeout", str(timeout), "-c", script]
        for option, value in (("--variant", self.variant), ("--plugin", self.plugin), ("--cmdline", self.cmdline)):
            command += [option, value] if value else []
        for port in self.ports:
            command += ["--port", port]
        run = subprocess.run(command + ([] if self.build else ["--no-build"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ticks = re.search(r"power off after (\d+) ticks", run.stderr)
        errors = [line for line in run.stderr.splitlines() if not re.match(r"\[ *\d+\.\d+\] ", line)]
        if run.returncode != 0 or not ticks or errors:
            raise RuntimeError(f"the guest ended with {run.returncode}: {run.stderr}")
        return run.stdout, int(ticks[1])


def script(load, state, rounds):
    """The script of the guest; without a load only the commands before it."""
    lines = [ROUND, STATES[state]]
    if load:
        lines += [f"i=0; while [ $i -lt {rounds} ]; do {LOADS[load]}; i=$((i+1)); done"]
    return "\n".join(lines)


def instructions(guest, states, rounds):
    """{(load, state): instructions} of `rounds` ({load: number}) rounds of each load."""
    counted = {}
    for state in states:
        before = guest.run(script(None, state, 0))[1]
        for load, number in rounds.items():
            counted[load, state] = guest.run(script(load, state, number))[1] - before
    return counted


def per_cent(counted, than):
    return 100 * (counted - than) / than


def added(counted, prefix="load_"):
    """{row: per cent added to the load by a state}."""
    return {f"{prefix}{load}_{state}": per_cent(number, counted[load, "untraced"])
            for (load, state), number in counted.items() if state != "untraced"}


def measure(build=True):
    """{row: value} of the table: millions of instructions untraced, and per cents."""
    rounds = dict.fromkeys(LOADS, ROUNDS)
    counted = instructions(Guest(build=build), STATES, rounds)
    bare = instructions(Guest(NO_FLAG_TESTS, build=build), ["untraced"], rounds)
    values = added(counted)
    for load in LOADS:
        values[f"load_{load}"] = counted[load, "untraced"] / 1e6
        values[f"load_{load}_flag_tests"] = per_cent(counted[load, "untraced"], bare[load, "untraced"])
    return values


def rows():
    """The names of the rows of measure()."""
    traced = [f"_{state}" for state in STATES if state != "untraced"]
    return [f"load_{load}{what}" for load in LOADS for what in ("", *traced, "_flag_tests")]


def measure_short(build=True):
    """{row: value} of the rows that the test compares with the baseline."""
    return added(instructions(Guest(build=build), ["untraced", *SHORT_STATES], SHORT_ROUNDS), LOAD_ROWS)


def short_rows():
    """The names of the rows of measure_short()."""
    return [f"{LOAD_ROWS}{load}_{state}" for load in LOADS for state in SHORT_STATES]
