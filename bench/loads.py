"""Whole loads: the cost of the work of a shell or a program without traces, and the cost that traces
add.

The cost is counted in instructions, under -icount on one CPU. It is the number of instructions of a
whole guest until power-off, minus the number for a guest that runs the same script without the
load. So boot, the start of tracing and the start of the shell do not count. A guest under -icount
executes the same instructions each time (docs/testing.md). But any change of the image changes a
count: objects move in memory, so addresses hash differently, and timer ticks interrupt at other
instructions.

The shell's loads are usual work. A load of the program `loads` (tests/programs/loads) repeats one
kind of system call, and so shows what the worst programs cost.
"""
import re
import subprocess
from dataclasses import dataclass

from counts import LOAD_ROWS, ROOT

CTL = "'#mem/kmemtrace/ctl'"
# The shell's loads: the commands of a round.
LOADS = {"pipeline": "ls / | cat > /dev/null", "file": "echo something > /tmp/file; read line < /tmp/file"}


@dataclass(frozen=True)
class Program:
    """A load of the program `loads`. `rounds`: how many `make bench` runs; `what`: what a round does; `targets`: for each state in which the load is
    measured, the most that it may add, in per cent, or None."""

    rounds: int
    what: str
    targets: dict


PROGRAMS = {
    "pipes": Program(3000, "open and close a pipe", {"on": 50, "depth_64": 75}),
    "stacks": Program(3000, "the same from 8 user stacks in turn", {"on": 60}),
    "paths": Program(5000, "stat of a path of 5 names", {"on": 21}),
    "ring": Program(1000, "a byte once round a ring of 4 processes", {"on": 27}),
    "threads": Program(1000, "make and join a thread", {"on": 15}),
    "forks": Program(300, "fork, exit and wait", {"on": None}),
    "maps": Program(1000, "map, write to and unmap 8 pages", {"on": None}),
    "signals": Program(5000, "send itself a signal, and handle it", {"on": None}),
}
# For each state of the traces: the commands that set it, before the load. Before these commands the
# script of a shell's load runs ROUND, one round of each, so that the shell has allocated its
# permanent memory. The script of a program's load runs one round of this load. In the state
# `stopped` the traces contain the records of another ROUND.
ROUND = "; ".join(LOADS.values())
STATES = {
    "untraced": "",
    "on": f"echo start > {CTL}",
    "stopped": f"echo start > {CTL}; {ROUND}; echo stop > {CTL}",
    "sampled": f"echo start sample=512K > {CTL}",
    "depth_64": f"echo start depth=64 > {CTL}",
}
SHELL_STATES = ("untraced", "on", "stopped", "sampled")
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
    """Returns the script for the guest. If `rounds` is 0, it has everything but the load: the program then only starts and ends."""
    if load in PROGRAMS:
        return "\n".join([f"loads {load} 1 || exit", STATES[state], f"loads {load} {rounds}"])
    lines = [ROUND, STATES[state]]
    if rounds:
        lines += [f"i=0; while [ $i -lt {rounds} ]; do {LOADS[load]}; i=$((i+1)); done"]
    return "\n".join(lines)


def ports_of(load):
    """The ports that the load's guest needs."""
    return ("tests",) if load in PROGRAMS else ()


def rounds_of(load):
    """How many rounds of the load `make bench` runs."""
    return PROGRAMS[load].rounds if load in PROGRAMS else ROUNDS


def text_of(load):
    """What a round of the load does, for people."""
    return PROGRAMS[load].what if load in PROGRAMS else LOADS[load]


def sweep_script(records, rounds):
    """Returns the script of the load for the sweeper: `rounds` rounds beside `records` records."""
    lines = [SWEEP_LOAD, f"echo start > {CTL}", SWEEP_LOAD, SWEEP_LOAD]
    if records:
        lines += [f"echo 'leak debug_64 {records}' > '#debug/alloc'"]
    return "\n".join([*lines, f"read -r limit bytes used number rest < {CTL}; echo limit $((number + {SWEEP_BYTES})) > {CTL}",
                      f"i=0; while [ $i -lt {rounds} ]; do {SWEEP_LOAD}; i=$((i+1)); done"])


def instructions(guest, states, rounds):
    """Runs each load of `rounds`, {load: number of rounds}, in each state. Returns {(load, state): instructions}."""
    before, counted = {}, {}
    for state in states:
        for load, number in rounds.items():
            without = script(load, state, 0)
            if without not in before:
                before[without] = guest.run(without)[1]
            counted[load, state] = guest.run(script(load, state, number))[1] - before[without]
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


def measure_programs(build=True):
    """Returns {(load, state): instructions} for the loads of PROGRAMS."""
    counted = {}
    for load, program in PROGRAMS.items():
        counted |= instructions(Guest(ports=ports_of(load), build=build), ["untraced", *program.targets], {load: program.rounds})
    return counted


def measure(build=True):
    """Returns {row: value} for the table of `make bench`: millions of instructions without traces, the per cent that traces and flag tests
    add, and the ratio of measure_sweeps()."""
    rounds = dict.fromkeys(LOADS, ROUNDS)
    counted = instructions(Guest(build=build), SHELL_STATES, rounds) | measure_programs(build)
    bare = instructions(Guest(NO_FLAG_TESTS, build=build), ["untraced"], rounds)
    values = added(counted) | measure_sweeps(Guest(build=build))
    values |= {f"load_{load}": number / 1e6 for (load, state), number in counted.items() if state == "untraced"}
    values |= {f"load_{load}_flag_tests": per_cent(counted[load, "untraced"], bare[load, "untraced"]) for load in LOADS}
    return values


def rows():
    """The names of the rows of measure()."""
    traced = [f"_{state}" for state in SHELL_STATES if state != "untraced"]
    return [f"load_{load}{what}" for load in LOADS for what in ("", *traced, "_flag_tests")] + ["load_sweeps"] + [
        f"load_{load}{what}" for load, program in PROGRAMS.items() for what in ("", *(f"_{state}" for state in program.targets))]


def measure_short(build=True):
    """Returns {row: value} of the rows that tests/guest/counts_test.py compares with the baseline."""
    return added(instructions(Guest(build=build), ["untraced", *SHORT_STATES], SHORT_ROUNDS), LOAD_ROWS)


def short_rows():
    """The names of the rows of measure_short()."""
    return [f"{LOAD_ROWS}{load}_{state}" for load in LOADS for state in SHORT_STATES]
