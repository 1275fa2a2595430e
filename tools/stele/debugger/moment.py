"""Facts about one moment of a run, as data for scripts/lost-at: which objects are lost, and who knows an object or has a reference."""
import gdb

from stele.debugger.alive import holder_name
from stele.debugger.memory_map import REGISTERS
from stele.debugger.reach import ask
from stele.debugger.ref_classes import ref_classes
from stele.debugger.refs import IN_USE, traced_references
from stele.debugger.source import backtrace_lines
from stele.debugger.tasks import Frame, all_tasks
from stele.debugger.traces import Traces
from stele.debugger.typed import Names
from stele.lost_search import HELD, LOST, NONE, PASSING


def lost_objects(kernel):
    """Returns a list with a dictionary for each head of the unreachable objects (kern/reach/heads.h). `record` identifies the allocation; None if it
    was not traced. `time`: of the allocation, in nanoseconds since boot. `stays`: the kernel has declared that the object stays. `keeps`: bytes of the
    unreachable objects that it leads to. `references`: the references to it that were not put and are nowhere."""
    answer, traces, found = ask(kernel, "unreachable"), kernel.once(Traces), []
    for word, *numbers in answer.lines:
        if word == "keeps":
            found[-1]["keeps"] += numbers[1]
        elif word == "head":
            address, size, source = numbers
            owner = answer.map.sources[source]
            record = traces.record_of(owner, address)
            found.append({"cache": owner.name, "address": address, "size": size, "keeps": 0, "record": _name(record) if record else None,
                          "time": record.time if record else 0, "stays": bool(record and record.not_leak), "references": [],
                          "allocated": _lines(kernel, record.stack) if record else []})
    by_address = {one["address"]: one for one in found}
    for of, reference in _references(kernel) if by_address else ():
        if reference.where < 0 and reference.record.object in by_address:
            by_address[reference.record.object]["references"].append(
                {"class": of.name, "number": reference.number, "time": reference.record.time, "taken": _lines(kernel, reference.record.stack)})
    return found


def _lines(kernel, stack):
    frames = kernel.once(Traces).stacks[stack].frames if stack else ()
    return [line for line in backtrace_lines(kernel, [Frame(frame) for frame in frames]) if " kern/core/ref.h:" not in line]


def _references(kernel):
    """Yields (RefClass, Reference) for all references of traced classes."""
    for of in ref_classes(kernel):
        if of.structure.trace:
            yield from ((of, reference) for reference in traced_references(kernel, kernel.at("TraceTable", of.structure.trace)))


def _name(record):
    """Names an allocation. Two allocations at one address have the same name only if the same program made both, with the same stack and in the same
    tick of the clock."""
    return f"{record.time}.{record.stack}.{record.user_stack}.{record.context}.{record.size}"


def moment(kernel, address, record):
    """Returns a dictionary about the object at `address` that the allocation `record` made. `state`:

    - NONE: it is not allocated yet, or not any more.
    - HELD: static memory, or an object that can be reached, has a pointer to it.
    - PASSING: only stacks and registers have pointers to it. Perhaps no function uses them any more.
    - LOST: no root leads to it.

    `path` names the pointers that lead to it, from a root on. `task`, `instruction` and `frames` say what the CPU is about to do."""
    state, path = _state(kernel, address, record)
    return {"state": state, "path": path, **_position(kernel)}


def reference_moment(kernel, name, number):
    """Like moment(), about the reference `number` of the class `name`. `path` has its place."""
    found = next((reference for of, reference in _references(kernel) if of.name == name and reference.number == number), None)
    state, path = NONE, []
    if found and found.place:
        state, path = HELD if found.where == IN_USE else PASSING, [kernel.once(Names).place(found.place)]
    elif found:
        registers = dict(zip(REGISTERS, _running(kernel).cpu.registers(REGISTERS), strict=True))
        path = [f"register {register}" for register, value in registers.items() if value == number][:1]
        state = PASSING if path else LOST
    return {"state": state, "path": path, **_position(kernel)}


def _state(kernel, address, record):
    where, names = f"{address:x}", kernel.once(Names)
    answer = ask(kernel, "holders", where, "path", where)
    lines = iter(answer.lines)
    _, _, shown, is_live, *place = next(lines)
    target = answer.place(*place)
    known = kernel.once(Traces).record_of(target.owner, address) if target.owner and is_live else None
    holders = [(kind, answer.place(*where)) for kind, *where in (next(lines) for _ in range(shown))]
    if not known or _name(known) != record:
        return NONE, []
    path = [holder_name(names, kind, answer.place(*where)) for kind, *where in list(lines)[1:]]
    if not path:
        return LOST, []
    for kind, holder in holders:
        if holder.owner and (to_holder := _path_to(kernel, names, holder.item)):
            return HELD, [*to_holder, holder_name(names, kind, holder)]
        if kind == "owner" or not holder.owner and names.is_static(holder.address):
            return HELD, [holder_name(names, kind, holder)]
    return PASSING, path


def _path_to(kernel, names, item):
    answer = ask(kernel, "path", f"{item:x}")
    return [holder_name(names, kind, answer.place(*where)) for kind, *where in answer.lines[1:]]


def _running(kernel):
    return next(task for task in all_tasks(kernel) if task.cpu)


def _position(kernel):
    task = _running(kernel)
    rip, = task.cpu.registers(("rip",))
    if not kernel.label("text_start") <= rip < kernel.label("text_end"):
        return {"task": str(task), "instruction": "", "frames": []}
    instruction = gdb.execute(f"x/i {rip:#x}", to_string=True).partition(":\t")[2]
    return {"task": str(task), "instruction": " ".join(instruction.split()), "frames": list(backtrace_lines(kernel, task.backtrace()))}
