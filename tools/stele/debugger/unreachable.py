"""Prints unreachable objects in the format of #mem/unreachable (docs/unreachable.md), as kern/reach/groups.cc and reach.cc do."""
from stele.debugger.reach import ask
from stele.debugger.symbols import Symbols
from stele.debugger.traces import Traces

# The number of heads shown for each _Group. From the heads, all other unreachable objects can be reached (kern/reach/heads.h).
_SHOWN = 8


class _Tally:
    def __init__(self):
        self.objects = self.bytes = 0

    def add(self, size):
        self.objects, self.bytes = self.objects + 1, self.bytes + size


class _Group:
    """The heads that belong to one cache or arena and were allocated with one stack, and the objects that these heads keep. A head keeps
    the objects that can be reached from this head, and from no earlier head."""

    def __init__(self, owner, stack):
        self.owner, self.stack = owner, stack
        self.own, self.keeps = _Tally(), _Tally()  # totals of the heads; totals of all objects that the heads keep
        self.kept = {}  # {name of a cache or arena: _Tally of the objects that the heads keep}
        self.shown = []  # [address of a head, its size, _Tally of the objects that it keeps]


def unreachable(kernel):
    """Yields the lines of the report."""
    answer, traces, symbols = ask(kernel, "unreachable"), kernel.once(Traces), kernel.once(Symbols)
    groups, total, heads, live = {}, _Tally(), 0, 0
    for word, *numbers in answer.lines:
        if word == "live":
            live, = numbers
            continue
        address, size, number = numbers
        owner = answer.map.sources[number]
        total.add(size)
        if word == "head":
            heads += 1
            record = traces.record_of(owner, address)
            stack = record.stack if record else 0
            group = groups.setdefault((owner.address, stack), _Group(owner, stack))
            group.own.add(size)
            head = [address, size, _Tally()]
            if len(group.shown) < _SHOWN:
                group.shown.append(head)
        else:
            group.kept.setdefault(owner.name, _Tally()).add(size)
            group.keeps.add(size)
            head[2].add(size)
    yield f"unreachable objects {total.objects} bytes {total.bytes} heads {heads} live {live}"
    for group in sorted(groups.values(), key=lambda group: -group.own.bytes - group.keeps.bytes):
        yield ""
        yield from _group_text(group, traces, symbols)


def _group_text(group, traces, symbols):
    frames = traces.stacks[group.stack].frames if group.stack else ()
    yield f"{group.own.bytes} bytes in {group.own.objects} objects of {group.owner.name}{_keeps(group.keeps)}{' from stack' if frames else ''}"
    yield from ("\t" + symbols.frame(frame) for frame in frames)
    for name, kept in sorted(group.kept.items(), key=lambda item: -item[1].bytes):
        yield f"\tkeeps {kept.bytes} bytes in {kept.objects} objects of {name}"
    yield from (f"\t{address:#x} size {size}{_keeps(kept)}" for address, size, kept in group.shown)
    if group.own.objects > len(group.shown):
        yield f"\t… {group.own.objects - len(group.shown)} more"


def _keeps(tally):
    return f" keeps {tally.bytes} bytes in {tally.objects} objects" if tally.objects else ""
