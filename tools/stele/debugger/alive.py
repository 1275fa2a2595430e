"""Why an object is alive: what points to it, and the shortest path to it from a root, in the names of types and fields."""
from stele.debugger.reach import ask
from stele.debugger.typed import Names


def why_alive(kernel, addresses):
    """{address: lines} of those that lie in live objects. Unreadable."""
    questions = [word for address in addresses for word in ("holders", f"{address:x}", "path", f"{address:x}")]
    if not questions:
        return {}
    answer, names = ask(kernel, *questions), kernel.once(Names)
    lines = iter(answer.lines)

    def links(count):
        return [(kind, answer.place(*place)) for kind, *place in (next(lines) for _ in range(count))]

    found = {}
    for address in addresses:
        _, count, shown, *place = next(lines)
        holders = links(shown)
        path = links(next(lines)[1])
        target = answer.place(*place)
        if target.owner:
            found[address] = [*_holders(names, holders, count), _path(names, path, target)]
    return found


def _holders(names, holders, count):
    for kind, place in holders:
        yield f"  pointed to by {_holder(names, kind, place)}"
    if count > len(holders):
        yield f"  … {count - len(holders)} more"
    if not count:
        yield "  nothing points to it"


def _path(names, links, target):
    if not links:
        return "  no path from a root leads to it"
    return "  path: " + " → ".join([*(_holder(names, kind, place) for kind, place in links), names.object(target.owner, target.item)])


def _holder(names, kind, place):
    """ "Process 0x… .fds", or the root that it is."""
    if kind == "owner":
        return "the kernel's stacks and page tables"
    if kind == "walker":
        return f"{names.object(place.owner, place.item)} by its page tables"
    if place.owner:
        return f"{names.object(place.owner, place.item)} {names.field(place)}"
    return names.root(place)
