"""The work of scripts/lost-at: runs a command in a recorded guest, finds the objects that it lost, and the instructions that lost them.

An object is lost when no pointer leads to it any more from a root: static data, stacks and registers. If other objects or static memory have ever
pointed to the object, the moment at which the last of these pointers went is the one to look at: the pointer was overwritten, or its holder was freed.
Otherwise only functions knew the object, in registers and on the stack, and the last of them forgot it.
"""
import fnmatch
import os
import pathlib
import queue
import re
import tempfile
from dataclasses import dataclass

from stele import entry, lost_search
from stele.debugging import Inspector, ensure_installed
from stele.recording import MEMORY, Recording

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What is allocated is traced from boot on (trace=all); references are traced from here on. After the command, waits for what is freed later.
SCRIPT = """echo refs > '#mem/kmemtrace/ctl'
({}
) >&2; status=$?; echo settle > '#mem/kmemtrace/ctl' 2> /dev/null; exit $status"""
STACKS = 3  # that are looked at, if nothing else is wanted
END = 1000  # instructions from the moment at which memory is searched to the power-off
FRAMES = 12  # most frames of a stack that are shown
# Inlined functions of libraries, of references and of the allocator say nothing.
_HELPERS = ("/*", "kern/lib/*", "kern/core/ref.h", "kern/include/*")
_PLACE = re.compile(r" (?P<file>[^ :]+):(?P<line>\d+)$")
_FRAME = re.compile(r" *(?:(?P<inlined>inlined)|[0-9a-f]{16}) (?P<function>.*) (?P<place>\S+)$")
# Sources of the allocator and the tracer, and of what the compiler calls in the variant `debug`.
_INSIDE = ("kern/src/*", "kern/include/*", "kern/intern/*", "kern/trace/*.cc", "kern/trace/*.h", "kern/sched/coverage.cc", "kern/main.cc")
_READS = ("kern/trace/dump/*",)  # the part of the tracer that no allocation calls


class Failure(Exception):
    """The message is one line."""


@dataclass
class Group:
    """Lost objects of one cache or arena that were allocated with the same stack. No other lost object leads to them. `bytes` includes the lost
    objects to which they lead. `address`, `time` and `record` are those of the newest object: its address, the time of the allocation in nanoseconds
    since boot, and the name of the allocation, None if it was not traced. `allocated`: lines of the stack."""

    name: str
    objects: int
    bytes: int
    address: int
    time: int
    record: str
    allocated: list
    references: list  # of the newest object: (class, number, time, lines of the stack that took it) of each reference that is nowhere, but was not put


@dataclass
class Finding:
    """What the `group` lost: its newest object, or a reference to this object. `lost`: the Change after which nothing led to it. `held`: the Change
    after which no other object and no static memory did; None if none ever did."""

    group: Group
    reference: tuple
    lost: lost_search.Change
    held: lost_search.Change


class LostRun:
    """A recorded run of `command`, in a guest of scripts/guest with these `options` and `cmdline`, in which everything is traced. `kernel`: its ELF file.
    A context manager. Raises RecordingError and Failure."""

    def __init__(self, command, options, cmdline, kernel, memory=MEMORY):
        if not ensure_installed():
            raise Failure("gdb is missing")
        self._temporary = tempfile.TemporaryDirectory(prefix=entry.PREFIX, dir=entry.temporary_folder())  # for the recording and for cores
        self.folder, self.width = pathlib.Path(self._temporary.name), max(1, min(os.cpu_count() or 1, 8))
        options = [*options, "--mem", memory, "--cmdline", f"trace=all {cmdline}".strip()]
        self.recording = Recording(ROOT, options, SCRIPT.format(command), self.folder)
        self.end = self.recording.end - END
        self._inspectors = [Inspector(kernel) for _ in range(self.width)]
        self._free = queue.SimpleQueue()
        for inspector in self._inspectors:
            self._free.put(inspector)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for inspector in self._inspectors:
            inspector.end()
        self._temporary.cleanup()

    def lost(self):
        """Returns the Groups of the objects that are lost at the end of the run, those with most bytes first. Raises Failure."""
        found = self._ask(self.end, "kmem-lost")
        if found is None:
            raise Failure("the kernel's memory at the end of the run cannot be read")
        stacks = {}
        for one in found["lost"]:
            if not one["stays"]:
                stacks.setdefault((one["cache"], *one["allocated"]), []).append(one)
        groups = []
        for same in stacks.values():
            newest = max(same, key=lambda one: one["time"])
            groups.append(Group(newest["cache"], len(same), sum(one["size"] + one["keeps"] for one in same), newest["address"], newest["time"],
                                newest["record"], newest["allocated"],
                                [(each["class"], each["number"], each["time"], each["taken"]) for each in newest["references"]]))
        return sorted(groups, key=lambda group: -group.bytes)

    def find(self, group, step):
        """Returns the Finding about a group's newest object. If a reference to it was not put, this reference is what was lost. `step(number)` is called
        when so many more moments are known. Raises lost_search.NotFound and RecordingError."""
        reference, time, question = None, group.time, ("kmem-moment", group.address, group.record)
        if group.references:
            reference = max(group.references, key=lambda each: each[2])
            name, number, time, _ = reference
            question = "kmem-ref-moment", name, number
        moments = lost_search.Moments(lambda moment: self._ask(moment, *question), self.width, step)
        begin = self.recording.moment_of(time)
        lost = lost_search.first_lost(moments, begin, self.end)
        return Finding(group, reference, lost, lost_search.last_held(moments, begin, lost.high))

    def _ask(self, moment, *question):
        """Returns the answer of the `question`, a command of gdb's, about a moment; None if memory is inconsistent then."""
        core, inspector = self.folder / f"core.{moment}", self._free.get()
        try:
            self.recording.core_at(moment, core)
            return inspector.ask(core, " ".join(map(str, question)))
        finally:
            self._free.put(inspector)
            core.unlink(missing_ok=True)


# --- The report.

def reports(run, groups, shown, keep, most=STACKS):
    """Yields (text, facts) about each of the `groups`; the facts are for report.json. Only the first `most` ones are looked for in the `run`. `shown`: a
    Progress. `keep`: the folder that gets the recording, for gdb; None if it is not kept."""
    if groups and keep:
        run.recording.keep(keep)
    for number, group in enumerate(groups):
        shown.phase(f"stack {number + 1} of {len(groups)}: moments looked at")
        yield _about(run, group, shown.step if number < most else None, keep and os.path.relpath(keep))


def _about(run, group, step, kept):
    """Returns (text, facts). Without a `step`, which counts the moments, the group is only named. `kept`: the folder of the recording, or None."""
    facts = {"name": group.name, "objects": group.objects, "bytes": group.bytes, "address": f"{group.address:#x}"}
    if not group.record:
        why = "it was allocated untraced"
    elif not step:
        why = "make lost-at MOST=… looks for the instruction"
    else:
        try:
            finding = run.find(group, step)
            return "\n".join(_report(finding, kept)) + "\n", facts | _facts(finding)
        except lost_search.NotFound as error:
            why = f"the instruction was not found: {error}"
    return f"LOST: {_amount(group)}, {group.address:#x}: {why}\n", facts | {"why": why}


def _facts(finding):
    """Returns what _report() says as data. "instructions": the first and the last one that may have lost the object."""
    leading = finding.held or finding.lost
    *before, last = leading.before["path"] or ["?"]
    frames = [frame for line in _outside(leading.before) if not _is_helper(line) and (frame := _FRAME.match(line))]
    return {"of": "reference" if finding.reference else "pointer", "instructions": [leading.low + 1, leading.high], "task": _task(leading),
            "stack": [frame["function"].partition("+0x")[0] for frame in frames], "lines": [frame["place"] for frame in frames],
            "last": last, "reached_from": before}


def _amount(group):
    return f"{group.bytes} bytes in {group.objects} object{'s' if group.objects > 1 else ''} of {group.name}"


def _report(finding, kept):
    """Yields lines."""
    group, lost, held = finding.group, finding.lost, finding.held
    leading, what = held or lost, "reference" if finding.reference else "pointer"
    yield f"LOST: {_amount(group)}" + (f"; about the newest, {group.address:#x}:" if group.objects > 1 else f", {group.address:#x}:")
    yield f"  {'a reference to it was not put, and was ' if finding.reference else ''}lost at {_when(leading)}"
    yield from _place(leading.before)
    if kept:
        yield f"    in gdb: make gdb REPLAY={kept} AT={leading.low}"
    *before, last = leading.before["path"] or ["?"]
    yield f"    the last {what} was in {last}"
    if before:
        yield f"    which was reached from {' → '.join(before)}"
    if not held:
        yield f"    no object and no static memory ever had {'this reference' if finding.reference else 'a pointer to it'}"
    elif held.high < lost.low:
        yield f"  functions that ran knew it until {_when(lost)}"
        yield from _place(lost.before, 1)
    if finding.reference:
        yield f"  taken at, as one of {len(group.references)} references that were not put" if len(group.references) > 1 else "  taken at"
        yield from _stack(finding.reference[3], FRAMES)
    yield "  allocated at"
    yield from _stack(group.allocated, FRAMES)


def _when(change):
    exact = f"instruction {change.high}" if change.high - change.low == 1 else f"one of the instructions {change.low + 1} to {change.high}"
    return f"{exact} of the run, by {_task(change)}"


def _task(change):
    return change.before["task"].rpartition(", running")[0]


def _named(file, patterns):
    return any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns)


def _is_inside(file):
    return _named(file, _INSIDE) and not _named(file, _READS)


def _is_helper(line):
    place = _PLACE.search(line)
    return " inlined " in line and place is not None and _named(place["file"], _HELPERS)


def _outside(answer):
    """Returns the stack of the instruction that the CPU is about to execute, without the innermost frames of the allocator."""
    frames = _frames(answer["frames"])
    inside = 0
    while inside < len(frames) and (place := _PLACE.search(frames[inside][-1])) and _is_inside(place["file"]):
        inside += 1
    return [line for frame in frames[inside:] or frames for line in frame]


def _place(answer, most=FRAMES):
    """Yields the lines of that stack for the report."""
    yield from _stack(_outside(answer), most)


def _frames(lines):
    """Returns the lines of a stack, a list for each frame: the functions that are inlined in it, and its own line."""
    frames, begun = [], False
    for line in lines:
        if not begun:
            frames.append([])
        frames[-1].append(line)
        begun = "inlined " in line
    return frames


def _stack(lines, most):
    """Yields the lines of the first `most` frames of a stack, and the source line of the innermost function."""
    frames = _frames([line for line in lines if not _is_helper(line)])
    for number, line in enumerate(line for frame in frames[:most] for line in frame):
        yield f"    {_in_report(line)}"
        if number == 0 and (source := _source_line(line)):
            yield f"        {source}"
    if len(frames) > most > 1:
        yield f"    … {len(frames) - most} more"


def _in_report(line):
    """Returns a line of gdb's stacks as the leak test writes it."""
    frame = _FRAME.match(line)
    return f"{frame['function']}{' (inlined)' if frame['inlined'] else ''}  {frame['place']}" if frame and _PLACE.search(line) else line.strip()


def _source_line(line):
    """Returns the source line that a line of a stack names; "" if it names none."""
    place = _PLACE.search(line)
    try:
        return (ROOT / place["file"]).read_text(encoding="utf-8").splitlines()[int(place["line"]) - 1].strip() if place else ""
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
