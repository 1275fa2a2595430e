"""Judges a leak test: the dump of its traced runs, and the growth in the untraced ones.

Each traced run of the command has a generation of its own, the mark of its records. Two judges
accuse by the dump:

- by stack: objects of one stack are alive in two generations;
- by allocating function: objects of one cache from one function, by any callers, are alive in more
  than half of the generations, or in three.

A reference that was not put keeps its object. So recorded references to accused objects are listed
under them. The other references, to objects from before the start or to objects that should stay,
are judged like objects.

An unreachable object is a leak even if only one run lost it (leak_unreachable.py).

Growth in the untraced runs (leak_counts.py) is a leak as well, whether or not the dump names its
stack; but with few looks it is a doubt until the dump names one. Stacks that no judge accuses are
shown as "not repeated" and do not count. Lost records must never look like "no leak": everything
that makes the dump incomplete is a doubt, and with a doubt there is no "no leak".

Causes come before consequences. A lost object takes its contents with it. Contents are usually made
after their holder, and are more often memory without a type (kmalloc, then pages), and more of it.
"""
from collections import Counter
from dataclasses import dataclass, field, replace

from stele.leak_counts import FEWEST_WITHOUT_STACK, REFERENCES, Growth, family
from stele.references import with_names

CLEAN, LEAKED, UNKNOWN = 0, 1, 2
COUNTERS_THAT_LOSE = ("dropped", "filtered", "cleared", "stacks_lost", "contexts_lost")
FILTERS = ("min", "max", "pid", "sample")
ALLOCATOR_HEADERS = ("kern/include/kmalloc.h", "kern/include/slab.h", "kern/include/arena.h", "kern/include/pages.h", "kern/include/core/ref.h")


@dataclass
class UserStack:
    """The calls in programs that led to the allocation of some of a group's objects."""

    owners: list  # "pid 12 sh"
    build_id: str  # of the program, in hexadecimal; "" if it has none
    path: str
    frames: tuple  # return addresses, innermost first
    bytes: int = 0
    objects: int = 0


@dataclass
class Group:
    """Outstanding objects that one stack allocated, of one cache or arena, or of all that were made
    under its name; or references that one stack took."""

    name: str
    kind: str  # cache, arena, references
    stack: int  # 0: not recorded
    frames: list  # [[(function, "file:line"), …]] of each return address, inlined functions first, without the allocator's
    records: list
    contexts: list = field(default_factory=list)  # "pid 12 sh", each once
    user_stacks: list = field(default_factory=list)  # most bytes first
    references: list = field(default_factory=list)  # groups of references that were not put, and so keep these objects
    lost: object = None  # leak_unreachable.Lost: its unreachable objects
    lying: dict = field(default_factory=dict)  # of references: {object: [place, …]}

    @property
    def bytes(self):
        return sum(record.size for record in self.records)

    @property
    def marks(self):
        return {record.mark for record in self.records}

    @property
    def places(self):
        """The locations of the records' references: [(object, location), …]."""
        return [(at, place) for at in dict.fromkeys(record.object for record in self.records) for place in self.lying.get(at, ())]

    @property
    def function(self):
        """The allocating function; None if it is not known."""
        return self.frames[0][0][0].partition("+0x")[0] if self.frames else None

    @property
    def cause(self):
        """Sorts causes before consequences."""
        rank = 3 if self.kind == "references" else 2 if self.kind == "arena" else 1 if self.name.startswith("kmalloc_") else 0
        return rank, min(record.time for record in self.records), len(self.records), -self.bytes


@dataclass
class Accusation:
    """Growth in the untraced runs, and the groups of it that were alive after the traced ones."""

    growth: Growth
    groups: list

    @property
    def named(self):
        """Do the groups explain the growth? Two objects of a stack do, or a single one that is
        reallocated."""
        return any(len(group.records) > 1 for group in self.groups) or bool(self.growth.objects <= 0 and self.groups)


@dataclass
class Verdict:
    status: int  # CLEAN, LEAKED, UNKNOWN
    by_stack: list  # groups
    by_function: list  # [[group, …]] of one function each
    others: list  # groups that are not repeated
    doubts: list  # reasons for an unknown verdict, as text
    by_counts: list  # Accusations
    suspected: list  # Accusations by counts that nothing confirms: doubts
    hidden: list  # findings that are not accused: leak_hide.Hidden
    unreachable: list = field(default_factory=list)  # unreachable objects: leak_unreachable.Lost

    @property
    def all_groups(self):
        """Groups that are shown; some more than once."""
        return (self.by_stack + [group for together in self.by_function for group in together]
                + [group for one in self.by_counts for group in one.groups] + self.others)

    @property
    def accused(self):
        """Groups that any judge accuses; some more than once."""
        return (self.by_stack + [group for together in self.by_function for group in together]
                + [group for one in self.by_counts for group in one.groups] + [one.group for one in self.unreachable if one.group])

    @property
    def unnamed(self):
        """Accusations that more traced runs might name."""
        named = {one.name for one in self.unreachable if one.group}
        return ([one.growth for one in self.by_counts + self.suspected if one.growth.can_be_traced and not one.named]
                + [one.growth() for one in self.unreachable if not one.traced and one.name not in named])


def groups_of(dump, kernel, lying=None):
    """The groups of a TraceDump. `kernel`: a SourceLines; `lying`: locations of references, from
    parse_references()."""
    lying_by_stack = {}
    for (name, stack, at), found in (with_names(lying, kernel.elf) if lying else {}).items():
        lying_by_stack.setdefault((name, stack), {})[at] = found
    stacks = {}
    for source in dump.sources:
        for record in source.records:
            stacks.setdefault((family(source.name), source.kind, record.stack), []).append(record)
    places = kernel.look_up({frame for _, _, stack in stacks if stack for frame in dump.stacks[stack].frames})
    groups = []
    for (name, kind, stack), records in stacks.items():
        frames = [places[frame] for frame in dump.stacks[stack].frames] if stack else []
        groups.append(Group(name, kind, stack, without_allocator(frames), records,
                            list(dict.fromkeys(dump.context_name(record.context) for record in records)), user_stacks_of(dump, records),
                            lying=lying_by_stack.get((name, stack), {})))
    return groups


def without_allocator(frames):
    """The kernel leaves the allocator's functions out; this removes those that are inlined into
    their callers."""
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
    """Attaches the references to objects of `group` to it, from the groups of `references`. Returns
    the other groups."""
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
    """(groups accused by stack, groups accused by function: [[group, …] of one function each])"""
    by_stack = [group for group in groups if len(group.marks) >= min(2, repeat)]
    functions = {}
    for group in groups:
        if group not in by_stack and group.function:
            functions.setdefault((group.name, group.function), []).append(group)
    wanted = min(max(2, repeat // 2 + 1), MOST_GENERATIONS)
    return by_stack, [together for together in functions.values() if len(set().union(*(group.marks for group in together))) >= wanted]


def judge(groups, repeat, doubts=(), growths=(), hidden=(), rises=None):
    """The verdict on the groups of a dump after `repeat` runs and on the Growths of the untraced
    ones. `hidden` is not judged. `rises`: growth of the number of references of each kind; for a
    kind that has not grown, new references only replace old ones."""
    references = [group for group in groups if group.kind == "references"]
    groups = [group for group in groups if group.kind != "references"]
    by_stack, by_function = judge_groups(groups, repeat)
    for group in groups:
        references = keep_references(group, references)
    kept = Counter(taken.name for group in groups for taken in group.references for _ in taken.records)
    of_references = judge_groups([taken for taken in references if rises is None or rises.get(taken.name, 0) > kept[taken.name]], repeat)
    by_stack, by_function, groups = by_stack + of_references[0], by_function + of_references[1], groups + references
    # An object that is kept has a reference that grows with it.
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
    """The reasons why the dump `after` may be incomplete, as text. `before` was taken right after
    the start; `commands` is the number of commands of the leak test itself in between. The counts
    are of kmemstat, from before the start and after the last run."""
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
