"""The part of the leak test that says what keeps accused objects to which pointers still lead: the field that gains entries with each run.

The command runs in a guest of its own, traced, first k times and then k times again. After each half, the guest's memory is written to a file
(scripts/guest --cores). In both memories, debugger/kept.py finds what keeps the objects of the accused stacks. A keeper that has gained entries in both
halves is the finding. A keeper that has as many objects in both memories, but larger ones in the second, grows by reallocation. If there is neither, the
keepers of entries that come and go are shown, with these words. What came only once is left out.
"""
import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stele import entry
from stele.debugging import Inspector, ensure_installed
from stele.leak_counts import KMALLOC
from stele.leaks import source_lines_of, without_allocator

MOST_SECONDS = 4  # for the runs of this guest, as far as two runs in each half allow
LEAST_HALF = 2  # runs in a half
SLOWEST = 10  # seconds of a run: what keeps the objects of a slower command is not looked for
SHOWN = 3  # keepers of a group
_SPACE = 10  # columns of the words at the beginning of a line


class NotKnown(Exception):
    """What keeps the objects cannot be found out. The message is one line."""


@dataclass
class Kept:
    """What keeps the objects of a group."""

    name: str  # the field or the variable: "visits", "Mailbox .letters[]"
    place: str  # where the variable is declared: "kern/ns/mount.cc:12"; "" if it is none
    kind: str  # List, array, array of chains, array of trees, tree, chain, pointer
    holders: int  # number of objects that have the field; 0 for a variable
    runs: int  # between the two memories
    counts: tuple  # numbers of entries in the first and in the second memory
    sizes: tuple  # bytes of the largest object in both memories
    is_moved: bool  # the object grows by reallocation
    entry: str  # name of the type of an entry, or of its cache
    entry_size: int
    stored: list  # where an entry is stored into the variable: [(function, "file:line"), …], inlined functions first; [] if it is not known
    frames: list  # of the stack that allocates the entries, as in a leaks.Group; [] if this is the group's stack
    path: list  # a shortest path to an object: texts, the root first

    def __str__(self):
        kind = f"a field of {self.holders} objects" if self.kind == "pointer" and self.holders > 1 else f"{'an' if self.kind[0] == 'a' else 'a'} {self.kind}"
        return f"{self.name}{f' ({self.place})' if self.place else ''}, {kind}: {self.growth}"

    @property
    def entries(self):
        """The number of entries that were gained."""
        return self.counts[1] - self.counts[0]

    @property
    def growth(self):
        if self.entries <= 0 and not self.is_moved:
            return f"entries come and go: {self.counts[0]} after {self.runs} runs, {self.counts[1]} after {2 * self.runs}"
        if self.is_moved:
            return f"the object is reallocated, {self.sizes[0]} bytes after {self.runs} runs, {self.sizes[1]} after {2 * self.runs}"
        count = (f"+{self.entries // self.runs} {'entry' if self.entries == self.runs else 'entries'} a run" if self.entries % self.runs == 0
                 else f"+{self.entries} {'entry' if self.entries == 1 else 'entries'} in {self.runs} runs")
        return f"{count}, of {self.entry}" + (f" ({self.entry_size} bytes)" if self.entry_size else "")


def half_of(ends, runs):
    """Returns the number of runs in a half. `ends`: leak_command.Run of each traced run; `runs`: the number of traced runs that named the leak. Raises
    NotKnown."""
    seconds = sum(end.seconds for end in ends) / max(len(ends), 1)
    if seconds > SLOWEST:
        raise NotKnown(f"what keeps the objects was not looked for, because a run takes {seconds:.0f} s")
    most = int(MOST_SECONDS / max(2 * seconds, 0.001))
    return max(LEAST_HALF, min(max(5, math.ceil(runs / 2)), most))


def groups_to_ask(verdict):
    """Returns the accused groups with a stack that have objects to which a pointer leads, each once."""
    groups = {}
    for group in verdict.accused:
        if group.frames and not (group.lost and group.lost.objects >= len(group.records)):
            groups.setdefault((group.name, group.kind, group.stack), group)
    return list(groups.values())


def find_keepers(verdict, dump, kernel, guests, command, half):
    """Sets `kept` in the accused groups of the Verdict. `dump`: the TraceDump of the traced runs. `kernel`: a SourceLines. Raises NotKnown."""
    groups = groups_to_ask(verdict)
    if not groups:
        return
    if not ensure_installed():
        raise NotKnown("gdb is missing")
    raw = [dump.stacks[group.stack].frames for group in groups]
    with tempfile.TemporaryDirectory(prefix=entry.PREFIX, dir=entry.temporary_folder()) as folder:
        cores, request = Path(folder, "core"), Path(folder, "groups")
        request.write_text(json.dumps([{"name": group.name, "frames": frames} for group, frames in zip(groups, raw, strict=True)]), encoding="utf-8")
        status = guests.kept(command, half, cores)
        before, after = answers(kernel.elf, [Path(f"{cores}.{number}") for number in range(2)], request, status)
    stacks = {tuple(keeper["stack"]) for keepers in after for keeper in keepers} - {()}
    stored = {keeper["stored"] + 1 for keepers in after for keeper in keepers if keeper["stored"]}
    lines = kernel.look_up({frame for stack in stacks for frame in stack} | stored)
    for group, frames, first, second in zip(groups, raw, before, after, strict=True):
        group.kept = compared(first, second, half, may_move=bool(KMALLOC.fullmatch(group.name)))
        for kept, stack in group.kept:
            own = tuple(stack) == tuple(frames)
            kept.stored = lines[kept.stored + 1] if kept.stored else []
            kept.frames = [] if own else without_allocator([lines[frame] for frame in stack])
        group.kept = [kept for kept, _ in group.kept]


def answers(kernel, cores, request, status):
    """Returns the keepers in each of the `cores` (debugger/kept.py). `status`: of the guest."""
    if not all(core.exists() for core in cores):
        raise NotKnown(f"the guest that shows what keeps the objects ended with status {status}")
    inspector = Inspector(kernel)
    try:
        found = [inspector.ask(core, f"kmem-kept {request}") for core in cores]
    finally:
        inspector.end()
    if None in found:
        raise NotKnown("the kernel's memory cannot be read, to see what keeps the objects")
    return [answer["kept"] for answer in found]


def compared(before, after, runs, may_move=False):
    """Compares the keepers of a group in two memories. Returns [(Kept, the stack that allocates its entries: return addresses)], the one with most
    entries first. `may_move`: the object may have grown by reallocation."""
    first = {(keeper["name"], keeper["place"]): keeper for keeper in before}
    found = []
    for keeper in after:
        old = first.get((keeper["name"], keeper["place"]))
        if not old:
            continue
        is_moved = may_move and keeper["entries"] == old["entries"] and keeper["objects"] == old["objects"] and keeper["bytes"] > old["bytes"]
        found.append((Kept(keeper["name"], keeper["place"], keeper["kind"], keeper["holders"], runs, (old["entries"], keeper["entries"]),
                           (old["largest"], keeper["largest"]), is_moved, keeper["entry"], keeper["entry_size"], keeper["stored"], [], keeper["path"]),
                      keeper["stack"]))
    growing = [one for one in found if one[0].entries > 0 or one[0].is_moved]
    # If there are more objects, but no keeper has gained entries, the entries have gone from one keeper to another.
    is_more = sum(keeper["objects"] for keeper in after) > sum(keeper["objects"] for keeper in before)
    swinging = [one for one in found if one[0].counts[0] > 1 and not is_more]
    return sorted(growing or swinging, key=lambda one: -one[0].entries)


def lines_of(group):
    """Returns the lines of the report about what keeps a group's objects."""
    lines, space = [], " " * (4 + _SPACE)
    for kept in group.kept[:SHOWN]:
        lines.append(f"    {'kept by':{_SPACE}}{kept}")
        if kept.frames:
            *inlined, (function, place) = kept.frames[0]
            lines.append(f"{space}its entries are allocated at {function}  {place}".rstrip())
        if kept.stored:
            function, place = kept.stored[-1]
            lines.append(f"{space}{'appended' if kept.entries > 0 else 'stored'} at {function}  {place}".rstrip())
        lines.append(f"{space}shortest path: {' → '.join(kept.path)}")
    if len(group.kept) > SHOWN:
        lines.append(f"{space}… and by {len(group.kept) - SHOWN} more")
    return lines


def facts(group):
    """Returns the same as data for the JSON report."""
    return [{"field": kept.name, "place": kept.place, "kind": kept.kind, "holders": kept.holders, "runs": kept.runs, "counts": list(kept.counts), "moved": kept.is_moved,
             "sizes": list(kept.sizes), "entry": kept.entry, "stored": kept.stored[-1] if kept.stored else None, "path": kept.path, "text": str(kept),
             "stack": [function.partition("+0x")[0] for frame in kept.frames for function, _ in frame], "lines": source_lines_of(kept.frames)}
            for kept in group.kept]
