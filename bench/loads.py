"""Whole loads: the cost of a shell's work without traces, and the cost that traces add.

The cost is counted in instructions, under -icount on one CPU. It is the number of instructions of a
whole guest until power-off, minus the number for a guest that runs the same script without the
load. So boot, the start of tracing and the start of the shell do not count. A guest under -icount
executes the same instructions each time (docs/testing.md). But any change of the image changes a
count: objects move in memory, so addresses hash differently, and timer ticks interrupt at other
instructions.
"""
import re
import subprocess
from dataclasses import dataclass

from counts import LOAD_ROWS, ROOT

CTL = "'#mem/kmemtrace/ctl'"
LOADS = {"pipeline": "ls / | cat > /dev/null", "file": "echo something > /tmp/file; read line < /tmp/file"}
# For each state of the traces: the commands that set it, before the load. Before these commands the
# script runs ROUND, one round of each load, so that the shell has allocated its permanent memory.
# In the state `stopped` the traces contain the records of another ROUND.
ROUND = "; ".join(LOADS.values())
STATES = {
    "untraced": "",
    "on": f"echo start > {CTL}",
    "stopped": f"echo start > {CTL}; {ROUND}; echo stop > {CTL}",
    "sampled": f"echo start sample=512K > {CTL}",
}
NO_FLAG_TESTS = "no_flag_tests"  # the build with configs/no_flag_tests.config
ROUNDS = 300
# Rounds of each load in tests/guest/counts_test.py. They are few, so that the test takes ten seconds
# of one processor. The test's rows have other values than those of `make bench`: fewer processes
# run, so the tracer stores fewer contexts and searches a smaller table.
SHORT_ROUNDS = {"pipeline": 60, "file": 60}
SHORT_STATES = ("on", "stopped", "sampled")
# A load for the sweeper (kern/intern/sweeper.h): many short processes with all traces on, while
# only SWEEP_BYTES of trace memory are free, so that new contexts soon make a sweep due. A sweep
# visits all records. The load runs beside SWEEP_RECORDS records of held objects, and without them;
# the row is the ratio of the two numbers of instructions.
SWEEP_LOAD, SWEEP_ROUNDS, SWEEP_RECORDS, SWEEP_BYTES = "ls / > /dev/null", 600, 400_000, 32 << 10


@dataclass(frozen=True)
class Guest:
    """A guest. `variant`: the build's variant, "" for the configuration of `make run`; `plugin`: a
    QEMU plugin; `cmdline`: words on the kernel's command line; `ports`: programs of user/ports;
    `build`: whether to build the guest's image first."""

    variant: str = ""
    plugin: str = ""
    memory: str = "512M"
    cmdline: str = ""
    cpus: int = 1
    ports: tuple = ()
    build: bool = True

    def run(self, script, timeout=600):
        """Returns (standard output, instructions at power-off)."""
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
    """Returns the script for the guest. If `load` is None, the script has only the commands that precede a load."""
    lines = [ROUND, STATES[state]]
    if load:
        lines += [f"i=0; while [ $i -lt {rounds} ]; do {LOADS[load]}; i=$((i+1)); done"]
    return "\n".join(lines)


def sweep_script(records, rounds):
    """Returns the script of the load for the sweeper: `rounds` rounds beside `records` records."""
    lines = [SWEEP_LOAD, f"echo start > {CTL}", SWEEP_LOAD, SWEEP_LOAD]
    if records:
        lines += [f"echo 'leak debug_64 {records}' > '#debug/alloc'"]
    return "\n".join([*lines, f"read -r limit bytes used number rest < {CTL}; echo limit $((number + {SWEEP_BYTES})) > {CTL}",
                      f"i=0; while [ $i -lt {rounds} ]; do {SWEEP_LOAD}; i=$((i+1)); done"])


def instructions(guest, states, rounds):
    """Runs each load of `rounds`, {load: number of rounds}, in each state. Returns {(load, state): instructions}."""
    counted = {}
    for state in states:
        before = guest.run(script(None, state, 0))[1]
        for load, number in rounds.items():
            counted[load, state] = guest.run(script(load, state, number))[1] - before
    return counted


def per_cent(counted, than):
    return 100 * (counted - than) / than


def added(counted, prefix="load_"):
    """Returns {row: per cent that a state adds to the load}."""
    return {f"{prefix}{load}_{state}": per_cent(number, counted[load, "untraced"])
            for (load, state), number in counted.items() if state != "untraced"}


def measure_sweeps(guest):
    """Returns {row: the instructions of the load for the sweeper beside many records, divided by those without them}."""
    beside, alone = (guest.run(sweep_script(records, SWEEP_ROUNDS))[1] - guest.run(sweep_script(records, 0))[1] for records in (SWEEP_RECORDS, 0))
    return {"load_sweeps": beside / alone}


def measure(build=True):
    """Returns {row: value} for the table of `make bench`: millions of instructions without traces, the per cent that traces and flag tests
    add, and the ratio of measure_sweeps()."""
    rounds = dict.fromkeys(LOADS, ROUNDS)
    counted = instructions(Guest(build=build), STATES, rounds)
    bare = instructions(Guest(NO_FLAG_TESTS, build=build), ["untraced"], rounds)
    values = added(counted) | measure_sweeps(Guest(build=build))
    for load in LOADS:
        values[f"load_{load}"] = counted[load, "untraced"] / 1e6
        values[f"load_{load}_flag_tests"] = per_cent(counted[load, "untraced"], bare[load, "untraced"])
    return values


def rows():
    """The names of the rows of measure()."""
    traced = [f"_{state}" for state in STATES if state != "untraced"]
    return [f"load_{load}{what}" for load in LOADS for what in ("", *traced, "_flag_tests")] + ["load_sweeps"]


def measure_short(build=True):
    """Returns {row: value} of the rows that tests/guest/counts_test.py compares with the baseline."""
    return added(instructions(Guest(build=build), ["untraced", *SHORT_STATES], SHORT_ROUNDS), LOAD_ROWS)


def short_rows():
    """The names of the rows of measure_short()."""
    return [f"{LOAD_ROWS}{load}_{state}" for load in LOADS for state in SHORT_STATES]
