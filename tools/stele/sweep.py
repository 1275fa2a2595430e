"""Reads the output of user/bin/leaksweep, the part of the leak sweep that runs in the guest, and
writes the report.

A sweep runs a command once for each allocation that the command makes in the kernel, and makes this
allocation fail.
"""
from dataclasses import dataclass, field

from stele.leak_command import Run, doubts_about_command
from stele.leak_report import NOT_KNOWN, VERDICTS, describe
from stele.leaks import CLEAN, LEAKED, UNKNOWN, frame_lines, groups_of, without_allocator
from stele.tracedump import TraceDump, TraceDumpError

NUMBERS_SHOWN = 12


@dataclass
class Leak:
    """An allocation whose failure makes the command leak."""

    process: int  # number in the order of forks, from 1 on
    allocation: int  # number among the process's allocations, from 1 on
    rises: list = field(default_factory=list)  # [(cache or arena, objects, bytes)] that the run has left
    source: str = ""  # the cache or arena that the allocation requested
    size: int = 0  # bytes requested
    name: str = ""  # name of the process
    frames: list = field(default_factory=list)  # return addresses, innermost first
    dump: TraceDump = None  # dump of the objects left behind; None if the run was not traced
    sweeper: int = 0  # PID of the program leaksweep; the dump contains objects of this program, too

    def left_behind(self, kernel):
        """Returns the Groups of the objects that the run has left behind, causes before consequences (leaks.py)."""
        if not self.dump:
            return []
        own = {context.id for context in self.dump.contexts.values() if context.pid == self.sweeper}
        names = {name for name, _, _ in self.rises}
        for source in self.dump.sources:
            source.records = [record for record in source.records if record.context not in own]
        return sorted((group for group in groups_of(self.dump, kernel) if group.name in names), key=lambda group: group.cause)

    @property
    def key(self):
        """The keys of two Leaks are equal if the failed allocations have the same stack and the leaked objects are of the same caches."""
        return tuple(self.frames), tuple(sorted(name for name, _, _ in self.rises))


@dataclass
class Swept:
    """The results of one guest, or of all guests that share a sweep."""

    status: str = None  # exit status of the command without failures
    processes: int = 0
    tried: int = 0  # number of allocations that the sweep has made fail
    counts: dict = field(default_factory=dict)  # {process: number of its allocations}, for the processes whose number is known
    hung: list = field(default_factory=list)  # [(process, allocation)]: the run in which this allocation failed hung and was killed
    leaks: list = field(default_factory=list)
    once: list = field(default_factory=list)  # Leaks that did not occur again when the same allocation failed again
    unrepeated: list = field(default_factory=list)  # Leaks whose allocation could not be made to fail again
    cut: list = field(default_factory=list)  # [(process, allocation)]: the process had not made this allocation yet when the run was killed
    stuck: list = field(default_factory=list)  # [(process, allocation)]: after the run in which this allocation failed, a run without failures hung
    grows: list = field(default_factory=list)  # [(cache or arena, objects, bytes)] that runs without failures leave behind
    panics: list = field(default_factory=list)  # [((process, allocation), lines of the panic)]
    last: tuple = None  # (process, allocation) of the last failure that was tried
    sweeper: int = 0  # PID of the program leaksweep
    current: Leak = None  # the last Leak that was added to `leaks`, `once` or `unrepeated`
    ended: bool = False

    @property
    def sways(self):
        """True if runs without failures leave different amounts behind. The guest then ends before it makes any allocation fail."""
        return self.ended and self.status is None and not self.grows

    def add(self, other):
        """Adds the results of another guest of the same sweep."""
        self.status, self.processes = other.status or self.status, max(self.processes, other.processes)
        self.tried += other.tried
        for process, allocations in other.counts.items():
            self.counts[process] = min(self.counts.get(process, allocations), allocations)
        for name in ("hung", "leaks", "once", "unrepeated", "cut", "stuck", "panics"):
            setattr(self, name, sorted(getattr(self, name) + getattr(other, name), key=place_of))
        self.grows = self.grows or other.grows


def place_of(found):
    """Returns (process, allocation) of an item in a list of Swept: a Leak, (process, allocation), or ((process, allocation), lines)."""
    return (found.process, found.allocation) if isinstance(found, Leak) else found[0] if isinstance(found[0], tuple) else found


def read(output):
    """Parses a guest's standard output, which may be cut off anywhere. Returns a Swept. Raises TraceDumpError if the text is not output of
    leaksweep."""
    swept = Swept()
    while output:
        line, newline, output = output.partition(b"\n")
        if not newline:
            break
        try:
            prefix, word, *values = line.decode("utf-8", "replace").split(" ")
            if prefix != "leaksweep":
                raise ValueError
            if word == "dump":
                size = int(values[0])
                if len(output) >= size:
                    swept.leaks[-1].dump = TraceDump(output[:size])
                output = output[size:]
            else:
                read_line(swept, word, values)
        except (ValueError, IndexError, AttributeError) as error:
            raise TraceDumpError(f"unexpected output: {line[:80]!r}") from error
    return swept


def read_line(swept, word, values):
    """Adds the contents of one line to `swept`. user/bin/leaksweep/leaksweep.cc describes the lines. Raises ValueError or IndexError for any other
    line."""
    if word == "clean":
        swept.status, swept.processes, swept.sweeper = str(int(values[0])), int(values[1]), int(values[2])
    elif word == "grows":
        swept.grows.append((values[0], int(values[1]), int(values[2])))
    elif word == "try":
        swept.last = (int(values[0]), int(values[1]))
        swept.tried += 1
    elif word == "passed":
        swept.tried -= 1
        swept.counts[int(values[0])] = int(values[1]) - 1
    elif word == "cut":
        swept.tried -= 1
        swept.cut.append((int(values[0]), int(values[1])))
    elif word in ("hung", "stuck"):
        getattr(swept, word).append((int(values[0]), int(values[1])))
    elif word in ("leak", "once", "unrepeated"):
        swept.current = Leak(int(values[0]), int(values[1]), sweeper=swept.sweeper)
        {"leak": swept.leaks, "once": swept.once, "unrepeated": swept.unrepeated}[word].append(swept.current)
    elif word == "rise":
        swept.current.rises.append((values[0], int(values[1]), int(values[2])))
    elif word == "failed":
        swept.leaks[-1].source, swept.leaks[-1].size, swept.leaks[-1].name = values[0], int(values[1]), " ".join(values[3:])
    elif word == "frame":
        swept.leaks[-1].frames.append(int(values[0], 16))
    elif word == "end":
        swept.ended = True
    else:
        raise ValueError(word)


def amount(rises):
    return " and ".join(f"{size} bytes of {name}" for name, _, size in sorted(rises, key=lambda rise: -rise[2]))


def function_of(frames):
    return frames[0][0][0].partition("+0x")[0] if frames else "an unknown function"


def numbers(targets):
    """Returns `targets`, [(process, allocation)], as text: "5, 6, 9 of process 2; 1 of process 3"."""
    parts = {}
    for process, allocation in targets:
        parts.setdefault(process, []).append(allocation)
    return "; ".join(f"{', '.join(map(str, found[:NUMBERS_SHOWN]))}{' …' if len(found) > NUMBERS_SHOWN else ''} of process {process}"
                     for process, found in parts.items())


def leak_lines(leaks, kernel, programs):
    """Returns the report's lines about `leaks`, which all have the same key."""
    first = next((leak for leak in leaks if leak.dump), leaks[0])
    places = kernel.look_up(set(first.frames))
    frames = without_allocator([places[frame] for frame in first.frames])
    lines = [f"LEAKED: failing allocation {first.allocation} of process {first.process} ({first.name}), in {function_of(frames)}, leaks "
             f"{amount(first.rises)}", "", f"the allocation that fails, {first.size} bytes of {first.source}:", *frame_lines(frames), ""]
    others = [(leak.process, leak.allocation) for leak in leaks if leak is not first]
    if others:
        lines += [f"the same: allocation {numbers(others)}", ""]
    groups = first.left_behind(kernel)
    if not groups:
        return lines + ["what leaks has no trace", ""]
    shown = programs.look_up([stack for group in groups for stack in group.user_stacks])
    lines.append("what it leaves behind:")
    for group in groups:
        lines += describe(group, shown) + [""]
    return lines


def doubts_about_swept(swept):
    """Returns texts that say why a sweep may be incomplete although it has reached its end."""
    doubts = [f"could not repeat the failure that left {amount(leak.rises)}: allocation {leak.allocation} of process {leak.process}"
              for leak in swept.unrepeated]
    if swept.stuck:
        doubts.append(f"the command hung even without a failure, after the failure of allocation {numbers(swept.stuck)}")
    return doubts + [f"process {process} was killed before its allocation {allocation} came: it may make more" for process, allocation in swept.cut]


def report(command, swept, doubts, kernel, programs, expected=()):
    """Returns (exit status, text of the report). The first line of the report is a word of VERDICTS, or PANIC. `doubts`: texts that say why the sweep
    did not reach its end. `expected`: exit statuses that the command may have without a failure; if it is empty, all that are no error of the shell."""
    doubts = [*doubts_about_swept(swept), *doubts]
    if swept.grows:
        doubts = [f"the command leaves something without any failure (make leaktest says what): {amount(swept.grows)}", *doubts]
    if swept.status is not None:
        doubts = doubts_about_command([[Run(int(swept.status), 0)]], expected) + doubts
    status = LEAKED if swept.leaks or swept.panics else UNKNOWN if doubts else CLEAN
    not_known = [NOT_KNOWN, *(f"    {doubt}" for doubt in doubts), ""] if doubts else []
    counted = ", ".join(f"{process}: {allocations}" for process, allocations in sorted(swept.counts.items()))
    lines = ["PANIC" if swept.panics and not swept.leaks else VERDICTS[status], f"leak sweep of: {command}", *(not_known if status == UNKNOWN else []),
             f"exit status without failures: {swept.status}; processes: {swept.processes}",
             f"failures: {swept.tried}; allocations of the processes: {counted or 'not known'}", ""]
    for (process, allocation), text in swept.panics:
        lines += [f"PANIC: failing allocation {allocation} of process {process} panics the kernel:", *(f"    {line}" for line in text), ""]
    together = {}
    for leak in swept.leaks:
        together.setdefault(leak.key, []).append(leak)
    for leaks in together.values():
        lines += leak_lines(leaks, kernel, programs)
    if swept.hung:
        lines += [f"hung and were killed (not counted): at allocation {numbers(swept.hung)}", ""]
    if swept.once:
        lines += ["not repeated (not counted):"]
        lines += [f"    allocation {leak.allocation} of process {leak.process}: {amount(leak.rises)}" for leak in swept.once] + [""]
    if status != UNKNOWN:
        lines += not_known
    return status, "\n".join(lines).rstrip("\n") + "\n"
