"""Reads the text of #mem/kmemtrace/NAME. docs/tracer.md explains the format."""
import re
from dataclasses import dataclass, field

MOST_MARKS = 65535
FILTERS = ("min", "max", "pid", "sample", "frees")
AMOUNT = r"(?:(\d+) bytes in (\d+) allocations?|(\d+) references)"  # the second form counts references, which have no size
COUNTERS_THAT_LOSE = ("dropped", "stacks_lost", "contexts_lost", "unattributed")


class DumpError(Exception):
    """The text is not a dump."""


@dataclass
class UserStack:
    """A call stack in a program, which led to the allocation of some of a group's objects."""

    owner: str  # "pid 12 sh", "pid 12 sh and 3 more"
    bytes: int
    objects: int
    build_id: str  # build id of the program, in hexadecimal; "" if it has none
    frames: list = field(default_factory=list)  # "0x401000 [/bin/sh]", innermost first


@dataclass
class Frees:
    """How many objects of a group's stack another stack has freed."""

    number: int
    frames: list = field(default_factory=list)  # as in Group


@dataclass
class Group:
    """Outstanding objects that one stack allocated."""

    bytes: int
    objects: int
    estimated: tuple = None  # estimates (bytes, objects), if the trace is sampled
    frames: list = field(default_factory=list)  # "function+0x12 [kernel]", innermost first
    marks: set = field(default_factory=set)  # marks of the live objects
    summary: str = ""  # ages, marks and contexts as the kernel wrote them
    user_stacks: list = field(default_factory=list)
    frees: list = field(default_factory=list)  # Frees, most frees first; empty unless the trace counts frees


@dataclass
class Dump:
    """The trace of one cache, arena or class of references."""

    name: str
    header: dict  # state, objsize, depth, mark; min, max, pid, sample, frees if they are set
    counters: dict  # seen, recorded, …: numbers
    groups: list

    def lost(self):
        """Returns {counter: number} for the counters of lost data that are not zero."""
        return {key: self.counters[key] for key in COUNTERS_THAT_LOSE if self.counters.get(key)}

    def broken_identities(self):
        """Checks the equations between the counters. Returns, as text, the equations that do not hold; [] for a correct dump."""
        c = self.counters
        broken = []
        if c["seen"] != c["recorded"] + c["dropped"] + c["filtered"]:
            broken.append("seen = recorded + dropped + filtered")
        if c["recorded"] != c["freed"] + c["cleared"] + c["live"]:
            broken.append("recorded = freed + cleared + live")
        if c["live"] != sum(group.objects for group in self.groups):
            broken.append("live = sum of the groups")
        if c["bytes"] != sum(group.bytes for group in self.groups):
            broken.append("bytes = sum of the groups")
        return broken


def pairs(words):
    return dict(zip(words[0::2], words[1::2]))


def parse_ranges(text):
    """Parses "1-2,5" to {1, 2, 5}. Raises DumpError."""
    result = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) > MOST_MARKS:
            raise DumpError(f"there is no mark {int(last or first)}")
        result.update(range(int(first), int(last or first) + 1))
    return result


def parse_group(lines):
    head = re.fullmatch(rf"{AMOUNT} from stack(?:, estimated (\d+) bytes in (\d+) allocations)?", lines[0])
    if not head:
        raise DumpError(f"not a group: {lines[0]!r}")
    group = Group(int(head[1] or 0), int(head[2] or head[3]), (int(head[4]), int(head[5])) if head[4] else None)
    rest = iter(lines[1:])
    for line in rest:
        text = line.strip()
        marks = re.search(r"\bmarks? (none|[\d,-]+)", text)  # none: the kernel had no memory for marks
        if text.startswith("age ms ") and marks:
            group.summary, group.marks = text, set() if marks[1] == "none" else parse_ranges(marks[1].rstrip(","))
            break
        group.frames.append(text)
    else:
        raise DumpError(f"cut off: {lines[0]!r} has no ages")
    frames = None  # of the user stack or of the frees to which the next lines belong
    for line in rest:
        user = re.fullmatch(rf"\tuser stack of (.+), {AMOUNT}(?:, build id ([0-9a-f]+))?", line)
        if user:
            group.user_stacks.append(UserStack(user[1], int(user[2] or 0), int(user[3] or user[4]), user[5] or ""))
            frames = group.user_stacks[-1].frames
        elif frees := re.fullmatch(r"\t(?:freed|put) (\d+) by stack", line):
            group.frees.append(Frees(int(frees[1])))
            frames = group.frees[-1].frames
        elif line.startswith("\t\t") and frames is not None:
            frames.append(line.strip())
    return group


def parse_ctl(text):
    """Parses #mem/kmemtrace/ctl. Returns ({figure of trace memory, such as "limit" or "used": bytes}, [Dump without groups]). Raises DumpError."""
    memory, dumps = {}, []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["limit"]:
            memory = {key: int(value) for key, value in pairs(words).items()}
        elif words[:1] == ["kmemtrace"] and "seen" in words:
            counters = pairs(words[words.index("seen"):])
            filters = {key: counters.pop(key) for key in FILTERS if key in counters}
            dumps.append(Dump(words[1], pairs(words[2:words.index("seen")]) | filters,
                              {key: int(value) for key, value in counters.items()}, []))
    if not memory:
        raise DumpError("no limit")
    return memory, dumps


def parse_dumps(text):
    """Returns the Dumps in `text`, which has one or more dumps. Leaves out sources (caches, arenas, classes of references) without a trace.
    Raises DumpError."""
    dumps, blocks = [], []
    for line in text.splitlines():
        if line.startswith("kmemtrace ") and " state " in line:
            words = line.split()
            dumps.append(Dump(words[1], pairs(words[2:]), {}, []))
            blocks = []
        elif not dumps:
            continue
        elif line.startswith("seen ") and not dumps[-1].counters:
            dumps[-1].counters = {key: int(value) for key, value in pairs(line.split()).items()}
        elif re.match(r"\d+ (bytes in|references from) ", line):
            blocks = [line]
            dumps[-1].groups.append(blocks)
        elif line.startswith("\t") and blocks:
            blocks.append(line)
    for dump in dumps:
        if dump.header["state"] != "off" and not dump.counters:
            raise DumpError(f"{dump.name}: no counters")
        dump.groups = [parse_group(block) for block in dump.groups]
    return [dump for dump in dumps if dump.header["state"] != "off"]
