"""The text of a dump, like that of kern/trace/dump/text.cc."""
from dataclasses import replace
from itertools import groupby

from stele.debugger import sampling
from stele.tracedump import counters_line, object_line

OBJECTS_SHOWN, CONTEXTS_SHOWN, USER_STACKS_SHOWN, PLACES_SHOWN = 100, 8, 8, 8  # the limits for a group in TraceDetails and TraceText


class Group:
    def __init__(self, stack, records, rate):
        self.stack, self.records = stack, sorted(records, key=lambda record: (record.time, record.object))
        self.bytes = sum(record.size for record in records)
        weights = [sampling.weight(record.size, rate) for record in records] if rate else []
        self.estimated = tuple(map(sum, zip(*weights))) if rate else (self.bytes << sampling.SHIFT, len(records) << sampling.SHIFT)


def groups_of(source):
    """Returns the records of a Source as Groups, one for each stack; the Group with most bytes is first."""
    by_stack = {}
    for record in source.records:
        by_stack.setdefault(record.stack, []).append(record)
    groups = [Group(stack, records, source.options.get("sample", 0)) for stack, records in by_stack.items()]
    return sorted(groups, key=lambda group: (-group.estimated[0], -len(group.records), group.stack))


def dump_text(traces, source, symbols, places=()):
    """Yields the lines of #mem/kmemtrace/NAME. `traces` has stacks and contexts by number, and the time `now`. If the Source
    is the trace of a class of references, `places` has a tuple (stack, number, object, location) for each traced reference. `stack` is the
    number of the stack on which the reference was taken. `number` is the reference's own number. `object` is the address of the object to
    which the reference points. `location` is text; it is "" if the reference was not found."""
    groups = groups_of(source)
    options = "".join(f" {key} {source.options[key]}" for key in ("min", "max", "pid", "sample") if key in source.options)
    yield f"kmemtrace {source.name} state {source.state} objsize {source.object_size} depth {source.options['depth']} mark {source.mark}{options}"
    estimated = {f"estimated_{what}": sampling.whole(sum(group.estimated[i] for group in groups)) for i, what in enumerate(("bytes", "objects"))}
    yield counters_line(replace(source, counters=source.counters | estimated))
    for group in groups:
        yield ""
        yield from _group_text(traces, source, group, symbols, places)


def _amount(source, size, count):
    return f"{count} references" if source.kind == "references" else f"{size} bytes in {count} allocations"


def _group_text(traces, source, group, symbols, places):
    estimated = ""
    if "sample" in source.options:
        estimated = ", estimated {} bytes in {} allocations".format(*map(sampling.whole, group.estimated))
    yield f"{_amount(source, group.bytes, len(group.records))} from stack{estimated}"
    if group.stack == 0:
        yield "\tthe stack was not recorded"
    else:
        yield from ("\t" + symbols.frame(frame) for frame in traces.stacks[group.stack].frames)
    times = [record.time // 1_000_000 for record in group.records]
    average = (len(times) * traces.now - sum(times)) // len(times)
    yield (f"\tage ms min {traces.now - max(times)} avg {average} max {traces.now - times[0]}, marks {_ranges(group.records)}, "
           f"contexts {_contexts(traces, group.records)}")
    yield from _user_stacks(traces, source, group.records)
    yield from _places(sorted(place for place in places if place[0] == group.stack))
    for record in group.records[:OBJECTS_SHOWN]:
        yield object_line(source, record, traces.now - record.time // 1_000_000, traces.context_name(record.context))
    if len(group.records) > OBJECTS_SHOWN:
        yield f"\t… {len(group.records) - OBJECTS_SHOWN} more"


def _ranges(records):
    """Returns the records' marks as text: "1-3,5"."""
    marks = sorted({record.mark for record in records})
    runs = [[mark for _, mark in run] for _, run in groupby(enumerate(marks), lambda item: item[1] - item[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _contexts(traces, records):
    """Returns the names of the records' contexts as text, in the order of the records, which begins with the oldest."""
    numbers = list(dict.fromkeys(record.context for record in records))
    shown = ", ".join(traces.context_name(number) for number in numbers[:CONTEXTS_SHOWN])
    more = len(numbers) - CONTEXTS_SHOWN
    return shown + (f", … {more} more" if more > 0 else "")


def _places(places):
    """Yields the lines about the locations of a group's references, in the order of the references' numbers."""
    found = [(item, where) for _, _, item, where in places if where]
    yield from (f"\treference to {item:#x} {where}" for item, where in found[:PLACES_SHOWN])
    if len(found) > PLACES_SHOWN:
        yield f"\t… {len(found) - PLACES_SHOWN} references more"
    if len(places) > len(found):
        yield f"\t{len(places) - len(found)} references nowhere found"


def _user_stacks(traces, source, records):
    """Yields the lines about user stacks, most bytes first. Records with the same stack in the same program count as one user stack."""
    shares = {}
    for record in records:
        if record.user_stack and record.context:
            context = traces.contexts[record.context]
            shares.setdefault((record.user_stack, context.path, context.build_id), []).append(record)
    found = [(sum(record.size for record in share), len(share), min(record.context for record in share), stack, len({r.context for r in share}))
             for (stack, _, _), share in shares.items()]
    found.sort(key=lambda share: (-share[0], -share[1], share[2], share[3]))
    for size, count, number, stack, processes in found[:USER_STACKS_SHOWN]:
        context = traces.contexts[number]
        others = f" and {processes - 1} more" if processes > 1 else ""
        build_id = f", build id {context.build_id}" if context.build_id else ""
        yield f"\tuser stack of {context}{others}, {_amount(source, size, count)}{build_id}"
        yield from (f"\t\t{frame:#x} [{context.path}]" for frame in traces.stacks[stack].frames)
    if len(found) > USER_STACKS_SHOWN:
        yield f"\t… {len(found) - USER_STACKS_SHOWN} more user stacks"
