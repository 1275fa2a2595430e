"""Judges the trace dump of a leak test and writes the report.

Each run of the command has a generation of its own, the mark of its records. Two judges accuse:

- by stack: objects of one stack are alive in two generations;
- by allocating function, for what the first lets go: objects of one cache from one function, whatever leads there, are alive in more
  than half of the generations.

What neither accuses is shown as "not repeated" and does not count. Nothing lost may look like nothing leaked: whatever keeps the dump from
telling all is a doubt, and with a doubt there is no "no leak".

Causes come before consequences. What a lost object holds is lost with it: contents are mostly made after what holds them, and are
rather memory without a type (kmalloc, then pages) and more of it.
"""
import re
from collections import Counter
from dataclasses import dataclass, field

CLEAN, LEAKED, UNKNOWN = 0, 1, 2
COUNTERS_THAT_LOSE = ("dropped", "filtered", "cleared", "stacks_lost", "contexts_lost")
FILTERS = ("min", "max", "pid", "sample")
ALLOCATOR_HEADERS = ("kern/include/kmalloc.h", "kern/include/slab.h", "kern/include/arena.h", "kern/include/pages.h")
CONTEXTS_SHOWN, USER_STACKS_SHOWN, GROWTH_SHOWN = 4, 8, 10


@dataclass
class UserStack:
    """Where in their programs some of a group's objects were allocated from."""

    owners: list  # "pid 12 sh"
    build_id: str  # of the program, in hexadecimal; "" if it has none
    path: str
    frames: tuple  # return addresses, innermost first
    bytes: int = 0
    objects: int = 0


@dataclass
class Group:
    """Outstanding objects of one cache or arena that were allocated from one stack."""

    name: str
    kind: str  # cache, arena
    stack: int  # 0: not recorded
    frames: list  # [[(function, "file:line"), …]] of each return address, inlined functions first, without those of the allocator
    records: list
    contexts: list = field(default_factory=list)  # "pid 12 sh", each once
    user_stacks: list = field(default_factory=list)  # most bytes first

    @property
    def bytes(self):
        return sum(record.size for record in self.records)

    @property
    def marks(self):
        return {record.mark for record in self.records}

    @property
    def function(self):
        """Who allocated; None if that is not known."""
        return self.frames[0][0][0].partition("+0x")[0] if self.frames else None

    @property
    def cause(self):
        """Sorts causes before consequences."""
        rank = 2 if self.kind == "arena" else 1 if self.name.startswith("kmalloc_") else 0
        return rank, min(record.time for record in self.records), len(self.records), -self.bytes


@dataclass
class Verdict:
    status: int  # CLEAN, LEAKED, UNKNOWN
    by_stack: list  # groups
    by_function: list  # [[group, …]] of one function each
    others: list  # groups that are not repeated
    doubts: list  # why nothing can be said, as text


def groups_of(dump, kernel):
    """The groups of a TraceDump. `kernel`: a SourceLines."""
    stacks = {}
    for source in dump.sources:
        for record in source.records:
            stacks.setdefault((source.name, source.kind, record.stack), []).append(record)
    places = kernel.look_up({frame for _, _, stack in stacks if stack for frame in dump.stacks[stack].frames})
    groups = []
    for (name, kind, stack), records in stacks.items():
        frames = [places[frame] for frame in dump.stacks[stack].frames] if stack else []
        groups.append(Group(name, kind, stack, without_allocator(frames), records,
                            list(dict.fromkeys(dump.context_name(record.context) for record in records)), user_stacks_of(dump, records)))
    return groups


def without_allocator(frames):
    """The kernel leaves the allocator's functions out; this cuts those that are inlined into their callers."""
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
        if not context or not context.user_stack:
            continue
        stack = found.setdefault((context.user_stack, context.build_id, context.path),
                                 UserStack([], context.build_id, context.path, dump.stacks[context.user_stack].frames))
        if str(context) not in stack.owners:
            stack.owners.append(str(context))
        stack.bytes += record.size
        stack.objects += 1
    return sorted(found.values(), key=lambda stack: -stack.bytes)


def judge(groups, repeat, doubts=()):
    by_stack = [group for group in groups if len(group.marks) >= min(2, repeat)]
    functions = {}
    for group in groups:
        if group not in by_stack and group.function:
            functions.setdefault((group.name, group.function), []).append(group)
    by_function = [together for together in functions.values() if len(set().union(*(group.marks for group in together))) > max(1, repeat // 2)]
    accused = [group for together in by_function for group in together]
    others = [group for group in groups if group not in by_stack and group not in accused]
    status = LEAKED if by_stack or by_function else UNKNOWN if doubts else CLEAN
    return Verdict(status, sorted(by_stack, key=lambda group: group.cause),
                   sorted((sorted(together, key=lambda group: group.cause) for together in by_function), key=lambda together: together[0].cause),
                   sorted(others, key=lambda group: -group.bytes), list(doubts))


def doubts_about(before, after, repeat, commands, before_counts, after_counts):
    """What keeps the dump `after` from telling all, as text. `before` was taken right after the start; `commands`: how many the leak test
    itself has given in between. The counts are of kmemstat, from before the start and after the last run."""
    doubts = []
    for source in after.sources:
        doubts += [f"{source.name}: {key} {source.counters[key]}" for key in COUNTERS_THAT_LOSE if source.counters[key]]
        doubts += [f"{source.name}: does not hold: {identity}" for identity in source.broken_identities()]
        doubts += [f"{source.name}: was traced with {key}={source.options[key]}" for key in FILTERS if key in source.options]
        if source.mark != repeat - 1:
            doubts.append(f"{source.name}: has mark {source.mark} after {repeat} runs")
    traced = {source.name for source in after.sources}
    doubts += [f"{source.name}: its trace has gone" for source in before.sources if source.name not in traced]
    doubts += [f"{name}: was made after the start, and is not traced" for name, count in after_counts.items()
               if name not in before_counts and name not in traced and count.can_be_traced]
    if others := (after.commands - before.commands - commands) % (1 << 32):
        doubts.append(f"somebody else gave {others} of the tracer's commands start, stop, reset and mark")
    if not after.sources:
        doubts.append("nothing was traced")
    return doubts


@dataclass
class Count:
    """A line of kmemstat."""

    bytes: int
    live: int
    can_be_traced: bool
    memory: bool  # not addresses, not what another line has too, not the tracer's


def parse_counts(text):
    """{name: Count} of #mem/kmemstat."""
    counts = {}
    for words in map(str.split, text.splitlines()):
        if len(words) == 9 and words[1] in ("A", "S"):
            name, _, _, _, allocated, live, _, _, traced = words
            memory = name not in ("kernel_virtual", "trace") and not re.fullmatch(r"page_\d+", name)
            counts[name] = Count(int(allocated), int(live), traced != "never", memory)
    return counts


def growth(before, after):
    """What has grown between two kmemstats, most bytes first: [(bytes, objects, name)]."""
    nothing = Count(0, 0, True, True)
    grown = [(count.bytes - before.get(name, nothing).bytes, count.live - before.get(name, nothing).live, name)
             for name, count in after.items() if count.memory]
    return sorted((line for line in grown if line[0] > 0), reverse=True)


def describe(group, program_places):
    lines = [f"{group.bytes} bytes in {len(group.records)} allocations of {group.name} from stack"]
    for *inlined, (function, place) in group.frames:
        lines += [f"    {name} (inlined)  {where}" for name, where in inlined]
        lines.append(f"    {function}  {place}".rstrip())
    if not group.frames:
        lines.append("    the stack was not recorded")
    lines.append(f"    marks {ranges(group.marks)}, contexts {some(group.contexts, CONTEXTS_SHOWN)}")
    for stack in group.user_stacks[:USER_STACKS_SHOWN]:
        lines.append(f"    user stack of {some(stack.owners, 1)}, {stack.bytes} bytes in {stack.objects} allocations")
        for frame in stack.frames:
            *inlined, (function, place) = program_places.get((stack.build_id, frame)) or [(f"{frame:#x} [{stack.path}]", "")]
            lines += [f"        {name} (inlined)  {where}" for name, where in inlined]
            lines.append(f"        {function}  {place}".rstrip())
    return lines


def ranges(numbers):
    """"1-2,5" of {1, 2, 5}."""
    result = []
    for number in sorted(numbers):
        if result and result[-1][1] == number - 1:
            result[-1][1] = number
        else:
            result.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in result)


def some(names, most):
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def report(verdict, dump, command, command_status, repeat, left, programs):
    """The report as text. `left`: names of the processes that the command left running; `programs`: a ProgramLines."""
    shown = verdict.by_stack + [group for together in verdict.by_function for group in together] + verdict.others
    places = programs.look_up([stack for group in shown for stack in group.user_stacks])
    lines = [f"leak test of: {command}", f"runs: 1 to warm up, {repeat} traced; the last one's exit status: {command_status}",
             f"traced: {len(dump.sources)} caches and arenas, {sum(source.counters['seen'] for source in dump.sources)} allocations"]
    if left:
        lines.append("left running, and killed: " + ", ".join(f"{name} ({count} times)" for name, count in Counter(left).items()))
    lines.append("")
    if verdict.by_stack:
        lines += [f"LEAKED: {sum(group.bytes for group in verdict.by_stack)} bytes from {len(verdict.by_stack)} stacks, each alive in at least "
                  f"{min(2, repeat)} of {repeat} runs", ""]
        for group in verdict.by_stack:
            lines += describe(group, places) + [""]
    for together in verdict.by_function:
        marks = set().union(*(group.marks for group in together))
        lines += [f"LEAKED: {sum(group.bytes for group in together)} bytes of {together[0].name} by {together[0].function}, from "
                  f"{len(together)} stacks, alive in {len(marks)} of {repeat} runs", ""]
        for group in together:
            lines += describe(group, places) + [""]
    if verdict.others:
        lines += [f"not repeated (not counted): {len(verdict.others)} stacks", ""]
        for group in verdict.others:
            lines += describe(group, places) + [""]
    if verdict.doubts:
        lines += ["what is not known:"] + [f"    {doubt}" for doubt in verdict.doubts] + [""]
    lines.append({CLEAN: "no leak", LEAKED: "leak", UNKNOWN: "no leak found, but not all is known"}[verdict.status])
    return "\n".join(lines) + "\n"


def memory_report(command, before, after):
    """The report if memory ran out before anything could be judged."""
    lines = [f"leak test of: {command}", "", "MEMORY RAN OUT: nothing can be judged. What grew most until then:", ""]
    grown = [f"    {size} bytes in {objects} allocations of {name}" for size, objects, name in growth(before, after)[:GROWTH_SHOWN]]
    lines += grown or ["    it is not known: nothing could be counted any more"]
    return "\n".join(lines) + "\n\nmemory ran out\n"
