"""Reads #mem/references: the location of each traced reference (docs/tracer.md)."""
import bisect
import re
import subprocess

NOWHERE = "nowhere found"
LINE = re.compile(r"(?P<kind>ref\.\S+) 0x(?P<object>[0-9a-f]+) stack (?P<stack>\d+) (?P<place>.+)")
STATIC = re.compile(r"in static data at 0x([0-9a-f]+)")


def parse_references(text):
    """Parses #mem/references. Returns {(class of references, number of the stack that took the references, address of the referenced object):
    [location as text, …]}. Stacks have the same numbers as in #mem/tracedump. Raises ValueError if the text is incomplete, or not from this file."""
    head, *lines = text.splitlines() or [""]
    count = re.fullmatch(r"references (\d+) nowhere \d+", head)
    found = [LINE.fullmatch(line) for line in lines]
    if not count or None in found or len(found) != int(count[1]):
        raise ValueError(f"not what #mem/references says: {text[:80]!r}")
    places = {}
    for match in found:
        places.setdefault((match["kind"], int(match["stack"]), int(match["object"], 16)), []).append(match["place"])
    return places


def with_names(places, elf):
    """Returns a copy of `places`, a result of parse_references(). In the copy, each location in static data also has the name of the
    kernel's variable. `elf`: the kernel's ELF file."""
    if not any(STATIC.match(place) for several in places.values() for place in several):
        return places
    lines = subprocess.run(["nm", "-nC", str(elf)], capture_output=True, text=True, check=True).stdout.splitlines()
    variables = [(int(match[1], 16), match[2]) for match in (re.fullmatch(r"([0-9a-f]{16}) [bBdD] (.+)", line) for line in lines) if match]

    def named(place):
        match = STATIC.match(place)
        if not match:
            return place
        address = int(match[1], 16)
        index = bisect.bisect_right(variables, address, key=lambda variable: variable[0])
        if index == 0:
            return place
        start, name = variables[index - 1]
        return f"{place} ({name}+{address - start:#x})"

    return {key: [named(place) for place in several] for key, several in places.items()}
