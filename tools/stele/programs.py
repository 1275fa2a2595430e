"""Programs of leakfuzz (user/bin/leakfuzz/program.h) as text, and their reduction.

A program is a line "UID CALL; CALL; …". A finding is shrunk by leaving calls out; arguments stay as
they are.
"""


def without_part(items, first, in_time=lambda: True):
    """Removes the unneeded items: delta debugging (Zeller and Hildebrandt, 2002) by complements,
    until no single item can go or `in_time` is false. `first` gets several candidates and returns
    the index of one with the finding, or None."""
    parts = 2
    while len(items) > 1 and in_time():
        size = -(-len(items) // parts)
        candidates = [items[:at] + items[at + size:] for at in range(0, len(items), size)]
        found = first(candidates)
        if found is not None:
            items, parts = candidates[found], max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(len(items), parts * 2)
    return items


def pieces(lines, most):
    """[(index of the first, lines), …]: the lines in chunks of at most `most` bytes, or of one
    line."""
    found, size = [], most
    for index, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > most:
            found.append((index, []))
            size = len(line.encode()) + 1
        found[-1][1].append(line)
    return found


def calls_of(programs):
    """[(program's number, uid, call), …]"""
    found = []
    for number, program in enumerate(programs):
        uid, _, rest = program.partition(" ")
        found += [(number, uid, call) for call in rest.split("; ") if call]
    return found


def programs_of(calls):
    """The programs that consist of these calls."""
    programs = {}
    for number, uid, call in calls:
        programs.setdefault((number, uid), []).append(call)
    return [f"{uid} {'; '.join(together)}" for (_, uid), together in programs.items()]
