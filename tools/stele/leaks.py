"""Judges a leak test: the dump of its traced runs, and the growth in the untraced runs.

Each traced run of the command gives its records a different mark. Two judges use the dump:

- by stack: accuses a stack if objects that it has allocated in two different runs are alive. If there was only one traced run, that run is
  enough;
- by allocating function: for each function and each cache, counts the runs whose objects are still alive, regardless of the function's
  callers. Accuses the function if there are three such runs. Two are enough if they are more than half of all runs.

A reference that was not put keeps its object alive. So recorded references to a recorded object are listed under this object. All other
references (to objects that were allocated before the trace, or that leak_hide.py has hidden) are judged like objects.

An unreachable object is a leak even if only one run has lost an object (leak_unreachable.py).

Growth in the untraced runs (leak_counts.py) is a leak as well, whether or not the dump has a stack for it. But if the counts were read only a few
times, growth for which the dump has no stack is only a doubt. Stacks that no judge accuses are shown as "not repeated" and do not count. If records
are lost, the verdict must not be CLEAN. So everything that makes the dump incomplete is a doubt, and with a doubt the verdict is a leak or
unknown.

The report shows causes before consequences. When an object leaks, the objects that it holds leak as well. A held object is usually allocated
after its holder, and there are usually more held objects than holders. Memory without a type (kmalloc, pages) is more often held than a holder.
So the report sorts stacks first by the kind of memory (typed objects, kmalloc, pages, references), then by age, then by the number of objects.
"""
from collections import Counter
from dataclasses import dataclass, field, replace

from stele.leak_counts import FEWEST_WITHOUT_STACK, REFERENCES, Growth, family
from stele.references import with_names

CLEAN, LEAKED, UNKNOWN = 0, 1, 2
COUNTERS_THAT_LOSE = ("dropped", "filtered", "cleared", "stacks_lost", "contexts_lost")
FILTERS = ("min", "max", "pid", "sample")
ALLOCATOR_HEADERS = ("kern/include/kmalloc.h", "kern/include/slab.h", "kern/include/arena.h", "kern/include/pages.h", "kern/core/ref.h")


@dataclass
class UserStack:
    """A call stack in a program, which led to the allocation of some of a group's objects."""

    owners: list  # the processes, each as "pid 12 sh"
    build_id: str  # build id of the program, in hexadecimal; "" if it has none
    path: str
    frames: tuple  # return addresses, innermost first
    bytes: int = 0
    objects: int = 0


@dataclass
class Freed:
    """How many objects that a group's stack had allocated another stack has freed."""

    objects: int
    frames: list  # as in a Group


@dataclass
class Group:
    """Outstanding objects of one cache or arena that were allocated with the same stack; or references of one class that were taken with the same
    stack. All caches that were created under one name count as one cache (leak_counts.family())."""

    name: str
    kind: str  # cache, arena, references
    stack: int  # id of the stack; 0 if it was not recorded
    frames: list  # for each return address: [(function, "file:line"), …], inlined functions first; inlined functions of the allocator are left out
    records: list
    contexts: list = field(default_factory=list)  # the processes, tasks and interrupts that allocated: "pid 12 sh", "irq timer"; each once
    user_stacks: list = field(default_factory=list)  # most bytes first
    references: list = field(default_factory=list)  # groups of references that were not put, and so keep these objects
    lost: object = None  # leak_unreachable.Lost of those objects of the group that are unreachable; None if none are
    kept: list = field(default_factory=list)  # leak_kept.Kept: what keeps the objects
    frees: list = None  # Freed, most objects first; None if the trace did not count frees
    frees_missing: bool = False  # some frees were not counted, perhaps of objects of this stack
    lying: dict = field(default_factory=dict)  # for a group of references: {address of the referenced object: [location of a reference as text, …]}

    @property
    def bytes(self):
        return sum(record.size for record in self.records)

    @property
    def marks(self):
        return {record.mark for record in self.records}

    @property
    def places(self):
        """The locations of the references: [(referenced object, location as text), …]."""
        return [(at, place) for at in dict.fromkeys(record.object for record in self.records) for place in self.lying.get(at, ())]

    @property
    def function(self):
        """The allocating function; None if it is not known."""
        return self.frames[0][0][0].partition("+0x")[0] if self.frames else None

    @property
    def cause(self):
        """A sort key that puts causes before consequences."""
        rank = 3 if self.kind == "references" else 2 if self.kind == "arena" else 1 if self.name.startswith(("kmalloc_", "bytes_")) else 0
        return rank, min(record.time for record in self.records), len(self.records), -self.bytes


@dataclass
class Accusation:
    """Growth in the untraced runs, and the groups of the same cache that the traced runs have left."""

    growth: Growth
    groups: list

    @property
    def named(self):
        """True if the groups explain the growth, that is, if one of them has several objects. If only the bytes grow, because an object is
        reallocated, a group with one object is enough."""
        return any(len(group.records) > 1 for group in self.groups) or bool(self.growth.objects <= 0 and self.groups)


@dataclass
class Verdict:
    status: int  # CLEAN, LEAKED, UNKNOWN
    by_stack: list  # groups whose stack is accused (see the top of this file)
    by_function: list  # groups whose function is accused: [[group, …] for each function]
    others: list  # groups that no judge accuses
    doubts: list  # reasons for an unknown verdict, as text
    by_counts: list  # Accusations
    suspected: list  # Accusations by counts that have too few looks and no stack; each is also one of `doubts`
    hidden: list  # findings that are not accused: leak_hide.Hidden
    unreachable: list = field(default_factory=list)  # unreachable objects: leak_unreachable.Lost

    @property
    def all_groups(self):
        """All groups that the report shows; some are in the list more than once."""
        return (self.by_stack + [group for together in self.by_function for group in together]
                + [group for one in self.by_counts for group in one.groups] + self.others)

    @property
    def accused(self):
        """All groups that any judge accuses; some are in the list more than once."""
        return (self.by_stack + [group for together in self.by_function for group in together]
                + [group for one in self.by_counts for group in one.groups] + [one.group for one in self.unreachable if one.group])

    @property
    def unnamed(self):
        """The accused and suspected Growths that have no stack, but for which more traced runs might find a stack."""
        named = {one.name for one in self.unreachable if one.group}
        return ([one.growth for one in self.by_counts + self.suspected if one.growth.can_be_traced and not one.named]
                + [one.growth() for one in self.unreachable if not one.traced and one.name not in named])


def groups_of(dump, kernel, lying=None):
    """Returns the Groups of a TraceDump. `kernel`: a SourceLines; `lying`: locations of references, from parse_references()."""
    lying_by_stack = {}
    for (name, stack, at), found in (with_names(lying, kernel.elf) if lying else {}).items():
        lying_by_stack.setdefault((name, stack), {})[at] = found
    stacks = {}
    for source in dump.sources:
        for record in source.records:
            stacks.setdefault((family(source.name), source.kind, record.stack), []).append(record)
    freed = frees_of(dump)
    named = {stack for _, _, stack in stacks if stack} | {stack for counts in freed.values() for stack in counts}
    places = kernel.look_up({frame for stack in named for frame in dump.stacks[stack].frames})
    groups = []
    for (name, kind, stack), records in stacks.items():
        frames = [places[frame] for frame in dump.stacks[stack].frames] if stack else []
        groups.append(Group(name, kind, stack, without_allocator(frames), records,
                            list(dict.fromkeys(dump.context_name(record.context) for record in records)), user_stacks_of(dump, records),
                            lying=lying_by_stack.get((name, stack), {})))
        if (counts := freed.get((name, kind, stack))) is not None:
            groups[-1].frees_missing = dump.frees_uncounted > 0
            groups[-1].frees = [Freed(objects, without_allocator([places[frame] for frame in dump.stacks[by].frames])) for by, objects in counts.most_common()]
    return groups


def frame_lines(frames, indent=4):
    """Returns a line for each function of the frames. `frames`: as in a Group."""
    lines, space = [], " " * indent
    for *inlined, (function, place) in frames:
        lines += [f"{space}{name} (inlined)  {where}" for name, where in inlined]
        lines.append(f"{space}{function}  {place}".rstrip())
    return lines


def source_lines_of(frames):
    """Returns the source lines of the frames, innermost first: ["file:line", …]."""
    return [place for frame in frames for _, place in frame]


def frees_of(dump):
    """Returns {(family of a cache's name, kind, stack that allocated): Counter of the objects by the stack that freed them}, for each stack with live
    objects in a trace that counted frees."""
    freed = {}
    for source in dump.sources:
        if "frees" not in source.options:
            continue
        for stack in {record.stack for record in source.records} - {0}:
            freed.setdefault((family(source.name), source.kind, stack), Counter()).update(source.frees.get(stack, {}))
    return freed


def without_allocator(frames):
    """Removes the allocator's functions that are inlined into the innermost frame. (Recorded stacks begin with the allocator's caller.)"""
    if not frames:
        return frames
    innermost = list(frames[0])
    while len(innermost) > 1 and innermost[0][1].rpartition(":")[0] in ALLOCATOR_HEADERS:
        innermost.pop(0)
    return [innermost, *frames[1:]]


def user_stacks_of(dump, records):
    found = {}
    for record in records:
        context = dump.contexts.get(record.context)
        if not context or not record.user_stack:
            continue
        stack = found.setdefault((record.user_stack, context.build_id, context.path),
                                 UserStack([], context.build_id, context.path, dump.stacks[record.user_stack].frames))
        if str(context) not in stack.owners:
            stack.owners.append(str(context))
        stack.bytes += record.size
        stack.objects += 1
    return sorted(found.values(), key=lambda stack: -stack.bytes)


MOST_GENERATIONS = 3


def keep_references(group, references):
    """Searches `references`, a list of groups of references, for references whose object is in `group`, and adds them to group.references. Returns
    the groups of the other references."""
    objects = {record.object for record in group.records}
    left = []
    for taken in references:
        halves = ([], [])
        for record in taken.records:
            halves[taken.name == REFERENCES + group.name and record.object in objects].append(record)
        others, keeping = halves
        if keeping:
            group.references.append(replace(taken, records=keeping))
        if others:
            left.append(replace(taken, records=others) if keeping else taken)
    group.references.sort(key=lambda taken: -len(taken.records))
    return left


def judge_groups(groups, repeat):
    """Returns (groups whose stack is accused, groups whose function is accused: [[group, …] for each function])."""
    by_stack = [group for group in groups if len(group.marks) >= min(2, repeat)]
    functions = {}
    for group in groups:
        if group not in by_stack and group.function:
            functions.setdefault((group.name, group.function), []).append(group)
    wanted = min(max(2, repeat // 2 + 1), MOST_GENERATIONS)
    return by_stack, [together for together in functions.values() if len(set().union(*(group.marks for group in together))) >= wanted]


def judge(groups, repeat, doubts=(), growths=(), hidden=(), rises=None):
    """Returns the Verdict on the groups of a dump after `repeat` traced runs, and on the Growths of the untraced runs. `hidden` is only stored in the
    Verdict. `rises`: {class of references: growth of their number in the traced runs}. References that are listed under objects account for some of
    this growth. If they account for all of it, the other references of the class have only replaced old references, and are not judged."""
    references = [group for group in groups if group.kind == "references"]
    groups = [group for group in groups if group.kind != "references"]
    by_stack, by_function = judge_groups(groups, repeat)
    for group in groups:
        references = keep_references(group, references)
    kept = Counter(taken.name for group in groups for taken in group.references for _ in taken.records)
    of_references = judge_groups([taken for taken in references if rises is None or rises.get(taken.name, 0) > kept[taken.name]], repeat)
    by_stack, by_function, groups = by_stack + of_references[0], by_function + of_references[1], groups + references
    # Growth of references is not accused if the objects that they refer to have grown at least as much, because each new object has a reference.
    growths = [growth for growth in growths
               if not any(growth.name == REFERENCES + other.name and growth.objects <= other.objects for other in growths)]
    grown = [Accusation(growth, sorted((group for group in groups if growth.has(group.name)), key=lambda group: group.cause))
             for growth in growths]
    by_counts = [one for one in grown if one.named or one.growth.looks >= FEWEST_WITHOUT_STACK]
    suspected = [one for one in grown if one not in by_counts]
    doubts = [*doubts, *(f"{one.growth}: too few looks to accuse it without a stack" for one in suspected)]
    accused = [group for together in by_function for group in together] + [group for one in by_counts for group in one.groups]
    others = [group for group in groups if group not in by_stack and group not in accused]
    status = LEAKED if by_stack or by_function or by_counts else UNKNOWN if doubts else CLEAN
    return Verdict(status, sorted(by_stack, key=lambda group: group.cause),
                   sorted((sorted(together, key=lambda group: group.cause) for together in by_function), key=lambda together: together[0].cause),
                   sorted(others, key=lambda group: -group.bytes), doubts, by_counts, suspected, list(hidden))


def doubts_about(before, after, repeat, commands, before_counts, after_counts):
    """Returns the reasons, as text, why the dump `after` may be incomplete. `before` is the dump from right after the start of the traces; `commands`
    is the number of commands that the leak test itself gave to the tracer between the two dumps. The counts are from kmemstat, before the start of
    the traces and after the last run."""
    doubts = []
    for source in after.sources:
        doubts += [f"{source.name}: {key} {source.counters[key]}" for key in COUNTERS_THAT_LOSE if source.counters[key]]
        doubts += [f"{source.name}: does not hold: {identity}" for identity in source.broken_identities()]
        doubts += [f"{source.name}: was traced with {key}={source.options[key]}" for key in FILTERS if key in source.options]
        if source.mark != repeat - 1:
            doubts.append(f"{source.name}: has mark {source.mark} after {repeat} runs")
    doubts += [f"the {what} of {count} records could not be named for lack of memory"
               for what, count in (("stacks", after.stacks_unnamed), ("contexts", after.contexts_unnamed)) if count]
    traced = {source.name for source in after.sources}
    doubts += [f"{source.name}: its trace has gone" for source in before.sources if source.name not in traced]
    doubts += [f"{name}: was made after the start, and is not traced" for name, count in after_counts.items()
               if name not in before_counts and name not in traced and count.can_be_traced]
    if others := (after.commands - before.commands - commands) % (1 << 32):
        doubts.append(f"another process gave {others} of the tracer's commands start, stop, reset and mark")
    if not after.sources:
        doubts.append("nothing was traced")
    return doubts
