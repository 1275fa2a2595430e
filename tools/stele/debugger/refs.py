"""Lists the references of a class that were taken while the class was traced, and have not been put: the object, the stack that took the
reference, and where the reference is now.

A reference is two neighbouring words: the address of the object and the number of the reference's record (kern/core/ref.h). To find
a reference, even one that was moved, the command searches memory for these two words.
"""
from dataclasses import dataclass

from stele.debugger.memory import Unreadable, constant
from stele.debugger.reach import Location, ask
from stele.debugger.ref_classes import ref_classes
from stele.debugger.source import backtrace_lines
from stele.debugger.tasks import Frame
from stele.debugger.traces import Traces
from stele.debugger.typed import Names

_STACK_APART, _STACK, _UNREACHED, IN_USE = 0, 1, 2, 3  # as in tools/reach/main.cc


@dataclass
class Reference:
    record: object  # the reference's record; its `object` is the referenced object, 0 if unknown
    number: int
    where: int = -1  # kind of the location (Where in tools/reach/main.cc); -1: not found
    place: Location = None


def references(kernel, name):
    """Yields lines about the references of a class. `name`: the name of the class, with or without `ref.`. Raises Unreadable."""
    classes = {one.name: one for one in ref_classes(kernel)}
    found = classes.get(name) or classes.get(f"ref.{name}")
    if not found:
        raise Unreadable(f"no class of references is called {name}: there are {' '.join(classes)}")
    traces, names = kernel.once(Traces), kernel.once(Names)
    known = traced_references(kernel, kernel.at("TraceTable", found.structure.trace)) if found.structure.trace else []
    state = "running" if found.structure.flags & constant("KMC_TRACED") else "stopped" if found.structure.trace else "off"
    yield f"{found.name}: {found.live()} references, of which the trace, {state}, knows {len(known)}"
    if not found.structure.trace:
        yield f"to know who takes them: echo start > #mem/kmemtrace/{found.name}"
    groups = {}
    for reference in known:
        groups.setdefault(reference.record.stack, []).append(reference)
    for stack, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield ""
        yield f"{len(group)} references from stack"
        frames = traces.stacks[stack].frames if stack else ()
        for line in backtrace_lines(kernel, [Frame(frame) for frame in frames]):
            if " kern/core/ref.h:" not in line:
                yield line
        if not frames:
            yield "    the stack was not recorded"
        for reference in sorted(group, key=lambda reference: reference.record.time):
            yield "\t" + _text(traces, names, reference)


def traced_references(kernel, table):
    """Returns the References that a TraceTable has records of, with their locations."""
    base, unit = kernel.constant("direct_map_base"), constant("TraceTable::kPlaceUnit")
    known = [Reference(record._replace(object=base + record.size * unit if record.size else 0, size=0), record.object)
             for record in kernel.once(Traces).records(table)]
    _find(kernel, known)
    return known


def _find(kernel, known):
    """Finds the locations of references. If a reference is found at several locations, the one with the highest `where` counts. Of several
    locations on one stack, the outermost one counts, since inner functions have saved copies of registers."""
    size = kernel.constant("kernel_stack_size")
    by_number = {reference.number: reference for reference in known if reference.record.object}
    if not by_number:
        return
    answer = ask(kernel, "references", more="".join(f"reference {each.record.object:x} {number:x}\n" for number, each in by_number.items()))
    for _, _, number, where, *place in answer.lines:
        reference = by_number[number]
        is_further_out = where == reference.where == _STACK and 0 < place[0] - reference.place.address < size
        if where > reference.where or is_further_out:
            reference.where, reference.place = where, answer.place(*place)


def _text(traces, names, reference):
    record = reference.record
    if not record.object:
        what = "to what lies outside of what a record can say"
    else:
        what = f"to {names.at(record.object)}: {_place(names, reference)}"
    return f"{what}; taken by {traces.context_name(record.context)} {traces.now - record.time // 1_000_000} ms ago"


def _place(names, reference):
    if not reference.place:
        return "nowhere found"
    words = names.place(reference.place)
    return f"perhaps {words}" if reference.where == _STACK_APART else f"{words}, which nobody can reach" if reference.where == _UNREACHED else words
