"""Shrinks the programs of leakfuzz (user/bin/leakfuzz/program.h) to the calls that a finding needs.

A program is a line "UID CALL; CALL; …". Shrinking removes whole calls, and changes no arguments.
"""


def without_part(items, first, in_time=lambda: True):
    """Returns `items` without the items that the finding does not need. Uses delta debugging (Zeller and Hildebrandt, 2002): removes parts of the
    list until no single item can be removed, or in_time() is false. first(candidates) gets a list of shortened lists. It returns the index of the
    first list that still gives the finding; None if no list does."""
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
    """Divides `lines` into chunks of at most `most` bytes. A longer line is a chunk by itself. Returns
    [(index of the chunk's first line, lines of the chunk), …]."""
    found, size = [], most
    for index, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > most:
            found.append((index, []))
            size = len(line.encode()) + 1
        found[-1][1].append(line)
    return found


def calls_of(programs):
    """Returns the calls of all programs: [(number of the program, uid, call), …]."""
    found = []
    for number, program in enumerate(programs):
        uid, _, rest = program.partition(" ")
        found += [(number, uid, call) for call in rest.split("; ") if call]
    return found


def programs_of(calls):
    """Returns the programs that have these calls. The inverse of calls_of()."""
    programs = {}
    for number, uid, call in calls:
        programs.setdefault((number, uid), []).append(call)
    return [f"{uid} {'; '.join(together)}" for (_, uid), together in programs.items()]
