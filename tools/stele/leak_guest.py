"""Runs the passes of a leak test in guests, and reads the output of leaktest.sh."""
import pathlib
import shlex
import subprocess
from dataclasses import dataclass, field

from stele import children, progress
from stele.leak_command import Run
from stele.leak_counts import Look, parse_counts
from stele.leak_unreachable import parse_unreachable
from stele.references import parse_references
from stele.tracedump import TraceDump, TraceDumpError

FUNCTIONS = pathlib.Path(__file__).with_name("leaktest.sh")
PANICKED = 134  # the status of scripts/guest after a panic of the kernel
OUT_OF_MEMORY = (b"ut of memory", b"Cannot fork")  # messages of kernel, programs and shell
# Minimum and maximum time of an eighth of the untraced runs, in hundredths of a second. Leaks that
# grow with time need the minimum; with the maximum, all eighths take 20 s.
SHORTEST_EIGHTH, LONGEST_EIGHTH = 40, 250
LOOKS = 9  # of an untraced pass, the one before the runs included


class Failure(Exception):
    """The leak test cannot judge, for the reason in the text."""


@dataclass
class Pass:
    """The output of one pass. A pass is a series of traced or untraced runs of one command. The output has counts from #mem/kmemstat, dumps, lists
    of unreachable objects, and lines `leaktest NAME VALUE`."""

    counts: list = field(default_factory=list)
    looks: list = field(default_factory=list)
    dumps: list = field(default_factory=list)
    dump_bytes: bytes = b""  # dump after the last run
    unreachable: list = field(default_factory=list)  # Unreachables; None: there was no report
    places: dict = field(default_factory=dict)  # locations of references: see parse_references()
    left: list = field(default_factory=list)
    immortal: list = field(default_factory=list)
    low: bool = False
    ended: bool = False
    ends: list = field(default_factory=list)  # leak_command.Run of each run of the command, the warm-up run first
    settled: bool = None
    runs: int = None  # number of traced runs


def passes_of(output):
    """Returns ([Pass], error in the output or None)."""
    passes = []
    try:
        while output:
            output = read_one(output, passes)
    except (TraceDumpError, ValueError) as error:
        _, found, text = output.rpartition(b"leaktest counts\n")  # if a pass gives up, the last output is its counts
        if found and passes:
            passes[-1].counts.append(parse_counts(text.decode("utf-8", "replace")))
        return passes, error
    return passes, None


def read_one(output, passes):
    """Reads the first line of the output, and the data that the line announces, into the last of `passes`. Returns the rest of the output."""
    line, _, rest = output.partition(b"\n")
    word, name, value = (line.decode("utf-8", "replace").split(" ", 2) + ["", ""])[:3]
    if word == "leaktest" and name == "pass":
        passes.append(Pass())
    elif word != "leaktest" or not passes:
        raise TraceDumpError(f"unexpected output: {line[:80]!r}")
    now = passes[-1]
    if name == "counts":
        text, _, rest = rest.partition(b"leaktest end\n")
        counts = parse_counts(text.decode("utf-8", "replace"))
        if now.looks and not now.looks[-1].counts:
            now.looks[-1].counts = counts
        now.counts.append(counts)
    elif name == "unreachable":
        text, _, rest = rest.partition(b"leaktest end\n")
        now.unreachable.append(parse_unreachable(text.decode("utf-8", "replace")))
    elif name == "dump":
        now.dumps.append(TraceDump(rest))
        now.dump_bytes = rest[:now.dumps[-1].size]
        rest = rest[now.dumps[-1].size:].removeprefix(b"leaktest end\n")
    elif name == "references":
        text, _, rest = rest.partition(b"leaktest end\n")
        now.places = parse_references(text.decode("utf-8", "replace")) if text else {}
    elif name == "look":
        runs, time, at_rest = map(int, value.split())
        now.looks.append(Look(runs, time, bool(at_rest), {}))
    elif name == "left":
        now.left.append(value)
    elif name == "immortal":
        now.immortal += value.split()
    elif name == "low":
        now.low = True
    elif name == "run":
        status, hundredths = map(int, value.split())
        now.ends.append(Run(status, hundredths / 100))
    elif name == "runs":
        now.runs = int(value)
    elif name == "settled":
        now.settled = value == "1" and now.settled is not False
    elif name == "ended":
        now.ended = True
    elif name != "pass":
        raise TraceDumpError(f"unexpected output: {line[:80]!r}")
    return rest


@dataclass
class Boot:
    """The results of the passes of one guest."""

    status: int
    passes: list
    error: Exception
    out_of_memory: bool  # some message said that memory ran out
    core: pathlib.Path = None  # the guest's memory, if its kernel panicked

    def why(self):
        if self.core:
            return f"the kernel panicked: its memory is in {self.core}, which scripts/gdb --core opens"
        return f"the guest ended with status {self.status}" if self.status else str(self.error or "the guest's output is incomplete")


class Guests:
    """Boots guests with the script scripts/guest of the checkout `root` and the script's `options`. The time limit of a guest is `seconds` times
    the number of its commands. `start`: options of the traces of traced passes. If the kernel panics and `core` is not None, the guest's memory is written to the file `core`. `shown`: a Progress."""

    def __init__(self, root, options, seconds, core=None, shown=None, start=""):
        self.root, self.options, self.seconds, self.core, self.shown, self.start = root, options, seconds, core, shown, start
        self.command = ""  # "command 3 of 9, ", which begins the text of a phase

    def untraced(self, commands, runs):
        """Runs the untraced passes of the commands, one after the other in one guest. Returns a Boot."""
        return self._boot(commands, f"untraced_pass {runs} {SHORTEST_EIGHTH} {LONGEST_EIGHTH}", "eighths of the untraced runs", b"leaktest look ", LOOKS)

    def idle(self, command, seconds):
        """Runs the command once and reads the counts. Then reads the counts eight more times in about `seconds` seconds. Returns a Boot."""
        return self._boot([command], f"idle_pass {max(seconds / 8, 0.1):.2f}", "counts without a run", b"leaktest look ", LOOKS)

    def traced(self, commands, runs, least, seconds):
        """Runs the traced passes of the commands, one after the other in one guest, with `runs` runs of each command. A pass ends earlier if it has
        taken `seconds` and has made at least `least` runs. Returns a Boot."""
        return self._boot(commands, f"traced_pass {runs} {seconds} {least} {self.start}".rstrip(), "traced runs", b"leaktest run ", runs + 1)

    def kept(self, command, half, cores):
        """Runs the command traced, `half` times and then `half` times again, and writes the memory after each half to the files `cores`.0 and `cores`.1.
        Returns the guest's status."""
        if self.shown:
            self.shown.phase(self.command + "runs that show what keeps objects", 2 * half + 1)
        status, _, _ = self._run(self._script([command], f"kept_pass {half}"), self.seconds, b"leaktest run ", ["--no-build", "--cores", str(cores)])
        return status

    def _boot(self, commands, call, phase, step, steps):
        """Boots a guest that makes a pass for each command by the shell's `call`. Each `step` in its output is one of the `steps` of a pass."""
        script = self._script(commands, call)
        if self.shown:
            self.shown.phase(self.command + phase, steps * len(commands))
        core = ["--core", str(self.core)] if self.core else []
        status, output, out_of_memory = self._run(script, self.seconds * len(commands), step, core)
        return Boot(status, *passes_of(output), out_of_memory, self.core if status == PANICKED and self.core and self.core.is_file() else None)

    @staticmethod
    def _script(commands, call):
        script = FUNCTIONS.read_text(encoding="utf-8")
        for command in commands:
            script += f"echo leaktest pass\ncommand={shlex.quote(command)}\n{call}\necho leaktest ended\n"
        return script

    def _run(self, script, seconds, step, more):
        """Runs a script in a guest, which prints `step` after each step. `more`: further options of scripts/guest. Returns (status, standard output, whether a message said that memory ran out)."""
        said = []

        def forward(line):
            if any(words in line for words in OUT_OF_MEMORY):
                said.append(line)
            progress.to_standard_error(line)

        command = [str(self.root / "scripts/guest"), *self.options, *more, "--timeout", str(seconds), "-c", script]
        guest = children.run(command, forward, progress.counter(step, self.shown.step) if self.shown else None, stdout=subprocess.PIPE)
        return guest.returncode, guest.stdout, bool(said)
