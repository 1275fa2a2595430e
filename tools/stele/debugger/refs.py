"""The references of a class that somebody took while they were traced, and has not put: who, to what, and where each lies now.

A reference is two neighbouring words, the address of its object and the number of its record (kern/include/core/ref.h); so where these two
words stand is where it lies, whatever holder it was moved to.
"""
from dataclasses import dataclass

from stele.debugger.memory import Unreadable, constant
from stele.debugger.reach import Place, ask
from stele.debugger.source import backtrace_lines
from stele.debugger.tasks import Frame, cpus
from stele.debugger.traces import Traces
from stele.debugger.typed import Names


@dataclass
class _Reference:
    record: object
    object: int  # its address; 0 for one that is not known
    where: int = -1  # as tools/reach/main.cc has it
    place: Place = None


class RefClass:
    """A class of references: an element of ref_classes."""

    def __init__(self, kernel, number, structure):
        self.structure, self.address = structure, structure.address
        self.name = kernel.read(structure.name, 64).partition(b"\0")[0].decode("ascii", "replace")
        traced = kernel.constant("ref_traced")
        counts = [cpu.tables.cpu.refs[number] for cpu in cpus(kernel)]
        self.taken, self.put = (sum(getattr(each, field) & ~traced for each in counts) for field in ("taken", "put"))


def ref_classes(kernel):
    return [RefClass(kernel, number, structure) for number, structure in enumerate(kernel.variable("ref_classes"))]


def references(kernel, name):
    """Lines. `name`: that of a class, with or without `ref.`. Unreadable."""
    classes = {one.name: one for one in ref_classes(kernel)}
    found = classes.get(name) or classes.get(f"ref.{name}")
    if not found:
        raise Unreadable(f"no class of references is called {name}: there are {' '.join(classes)}")
    traces, names = kernel.once(Traces), kernel.once(Names)
    known = _known(kernel, traces, found)
    state = "running" if found.structure.flags & constant("KMC_TRACED") else "stopped" if found.structure.trace else "off"
    yield f"{found.name}: {found.taken - found.put} references, of which the trace, {state}, knows {len(known)}"
    if not found.structure.trace:
        yield f"to know who takes them: echo start > #mem/kmemtrace/{found.name}"
    _find(kernel, known)
    groups = {}
    for reference in known:
        groups.setdefault(reference.record.stack, []).append(reference)
    for stack, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield ""
        yield f"{len(group)} references from stack"
        frames = traces.stacks[stack].frames if stack else ()
        for line in backtrace_lines(kernel, [Frame(frame) for frame in frames]):
            if " kern/include/core/ref.h:" not in line:
                yield line
        if not frames:
            yield "    the stack was not recorded"
        for reference in sorted(group, key=lambda reference: reference.record.time):
            yield "\t" + _text(traces, names, reference)


def _known(kernel, traces, ref_class):
    if not ref_class.structure.trace:
        return []
    base, unit = kernel.constant("direct_map_base"), constant("TraceTable::kPlaceUnit")
    records = traces.records(kernel.at("TraceTable", ref_class.structure.trace))
    return [_Reference(record, base + record.size * unit if record.size else 0) for record in records]


def _find(kernel, known):
    """Where they lie; of several places that with the highest `where`."""
    by_pair = {(reference.object, reference.record.object): reference for reference in known if reference.object}
    if not by_pair:
        return
    answer = ask(kernel, "references", more="".join(f"reference {item:x} {number:x}\n" for item, number in by_pair))
    for _, item, number, where, *place in answer.lines:
        reference = by_pair[item, number]
        if where > reference.where:
            reference.where, reference.place = where, answer.place(*place)


def _text(traces, names, reference):
    record = reference.record
    if not reference.object:
        what = "to what lies outside of what a record can say"
    else:
        what = f"to {names.at(reference.object)}: {names.place(reference.place) if reference.place else 'nowhere found'}"
    return f"{what}; taken by {traces.context_name(record.context)} {traces.now - record.time // 1_000_000} ms ago"
