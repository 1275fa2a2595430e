"""Says why an object is alive: lists the pointers to the object and the shortest path to it from a root, with names of types and fields."""
from stele.debugger.reach import ask
from stele.debugger.typed import Names

_STEPS = 16  # steps that are shown at each end of a path


def why_alive(kernel, addresses):
    """Returns {address: lines} for those of `addresses` that are in objects. The lines of a live object include a path. Raises Unreadable."""
    questions = [word for address in addresses for word in ("holders", f"{address:x}", "path", f"{address:x}")]
    if not questions:
        return {}
    answer, names = ask(kernel, *questions), kernel.once(Names)
    lines = iter(answer.lines)

    def links(count):
        return [(kind, answer.place(*place)) for kind, *place in (next(lines) for _ in range(count))]

    found = {}
    for address in addresses:
        _, count, shown, is_live, *place = next(lines)
        holders = links(shown)
        path = links(next(lines)[1])
        target = answer.place(*place)
        if target.owner:
            found[address] = [*_holders(names, holders, count), *([_path(names, path, target)] if is_live else [])]
    return found


def _holders(names, holders, count):
    for kind, place in holders:
        yield f"  pointed to by {holder_name(names, kind, place)}"
    if count > len(holders):
        yield f"  … {count - len(holders)} more"


def _path(names, links, target):
    if not links:
        return "  no path from a root leads to it"
    steps = [holder_name(names, kind, place) for kind, place in links]
    if len(steps) > 2 * _STEPS:
        steps[_STEPS:-_STEPS] = [f"… {len(steps) - 2 * _STEPS} more"]
    return "  path: " + " → ".join([*steps, names.object(target.owner, target.item)])


def holder_name(names, kind, place):
    """Returns the name of a word that has a pointer: "Process 0x… .fds", or the name of a root."""
    if kind == "owner":
        return "a root that its owner reports"
    if kind == "walker":
        return f"{names.object(place.owner, place.item)}, by its walker"
    if place.owner:
        return f"{names.object(place.owner, place.item)} {names.field(place)}"
    return names.root(place)
