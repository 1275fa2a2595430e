"""Makes a Profile from the text of #mem/kmemtrace/NAME (docs/tracer.md), or of several such files, one
after the other.

The text has a group for each stack: sums, and lines for at most a hundred objects that the stack has
allocated. So the mark, age or process of a group is known only if it is the same for all objects of the
group. A group also has sums for its user stacks. The text has no build id, so functions get source
lines only if --kernel names the kernel.
"""
import bisect
import re

from stele.dump import DumpError, parse_dumps
from stele.report.from_dump import LOSSES, age_of
from stele.report.lookup import frames_of
from stele.report.profile import Amount, Frame, Key, Profile, ReportError, Source

HEADING = re.compile(r"kmemtrace \S+ state ", re.MULTILINE)
FRAME = re.compile(r"(?P<function>\S.*?)\+0x(?P<offset>[0-9a-f]{1,8}) \[kernel\]")
AGE = re.compile(r"age ms min (\d{1,20}) avg \d+ max (\d{1,20}), marks .*?, contexts (.*)")
OBJECT, MORE = re.compile(r"\t0x[0-9a-f]+(?: size \d+)? age \d+ mark \d+ cpu \d+ .+"), re.compile(r"\t… (\d+) more")


def read(path, text, lookup):
    """Parses `text` to a Profile. Raises ReportError."""
    profile = Profile(str(path))
    names = Names(lookup) if lookup.kernel_file else None
    try:
        check_end(text)
        for dump in parse_dumps(text):
            if broken := dump.broken_identities():
                raise DumpError(f"{dump.name}: does not hold: {broken[0]}")
            add(profile, dump, names, lookup)
    except DumpError as error:
        raise ReportError(f"{path}: {error}") from error
    except (ValueError, KeyError, IndexError) as error:
        raise ReportError(f"{path}: not a whole dump of a trace") from error
    return profile


def check_end(text):
    """Checks that `text` is not cut off: the last group must have a line for each of its objects, or a line with the number of further objects.
    Raises DumpError."""
    last = re.split(r"^(?=\d+ (?:bytes in|references))", text, flags=re.MULTILINE)[-1].splitlines()
    head = re.match(r"(?:\d+ bytes in )?(\d+) (?:allocations|references) from stack", last[0]) if last else None
    if not text.endswith("\n"):
        raise DumpError("cut off: the last line does not end")
    if head and sum(int(more[1]) if (more := MORE.fullmatch(line)) else bool(OBJECT.fullmatch(line)) for line in last) != int(head[1]):
        raise DumpError("cut off: not all of the last stack's objects are there")


class Names:
    """Finds the addresses of functions in the kernel that --kernel names."""

    def __init__(self, lookup):
        self.kernel = lookup.given_kernel()
        self.addresses = {name: address for address, name in self.kernel.symbols.functions}
        self.starts = sorted(self.addresses.values())

    def address(self, function, offset):
        """Returns the return address at `offset` in the function; 0 if the kernel has no such function, or the function is shorter than `offset`."""
        start = self.addresses.get(function)
        if start is None:
            return 0
        after = bisect.bisect_right(self.starts, start)
        return start + offset if after == len(self.starts) or start + offset <= self.starts[after] else 0


def add(profile, dump, names, lookup):
    header = {key: int(value) for key, value in dump.header.items() if key not in ("state", "objsize", "mark")}
    kind = "references" if dump.name.startswith("ref.") else ""
    profile.sources[dump.name] = Source(dump.name, kind, dump.header["state"], int(dump.header.get("objsize", 0)), header, dict(dump.counters))
    profile.incomplete += [f"{dump.name}: {dump.counters[counter]} {what}" for counter, what in LOSSES.items() if dump.counters.get(counter)]
    for group in dump.groups:
        frames = kernel_frames(group.frames, names)
        facts = AGE.fullmatch(group.summary)
        process, age = "", ""
        if facts:
            process = facts[3] if not re.search(r", |…|not known", facts[3]) else ""
            ages = {age_of(int(facts[1])), age_of(int(facts[2]))}
            age = ages.pop() if len(ages) == 1 else ""
        mark = min(group.marks) if len(group.marks) == 1 else 0
        size, objects = group.estimated or (group.bytes, group.objects)
        rest = Amount(objects, size)
        for stack in group.user_stacks:
            if group.estimated:
                share = Amount(round(stack.objects * objects / max(group.objects, 1)), round(stack.bytes * size / max(group.bytes, 1)))
            else:
                share = Amount(stack.objects, stack.bytes)
            owner = stack.owner if not re.search(r" and \d+ more$", stack.owner) else ""
            profile.add(Key(dump.name, frames, user_frames(stack, lookup), owner, mark, age), share)
            rest.add(share, -1)
        if rest:
            profile.add(Key(dump.name, frames, (), process, mark, age), rest)


def kernel_frames(lines, names):
    if lines == ["the stack was not recorded"]:
        return ()
    matches = [FRAME.fullmatch(line) for line in lines]
    addresses = [names.address(match["function"], int(match["offset"], 16)) if names and match else 0 for match in matches]
    places = names.kernel.look_up({address for address in addresses if address}) if names else {}
    frames = []
    for line, match, address in zip(lines, matches, addresses):
        if address:
            frames += frames_of(places[address], address, "kernel", names.kernel.build_id)
        else:
            frames.append(Frame(match["function"] if match else line))
    return tuple(frames)


def user_frames(stack, lookup):
    parts = [re.fullmatch(r"0x([0-9a-f]{1,16}) \[(.*)\]", line) for line in stack.frames]
    if None in parts or not parts:
        return tuple(Frame(line, module="program") for line in stack.frames)
    wanted = (stack.build_id, parts[0][2], tuple(int(part[1], 16) for part in parts))
    return lookup.program_frames({wanted})[wanted]
