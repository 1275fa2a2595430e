"""Reads the text of #mem/kmemtrace/NAME. docs/tracer.md explains the format."""
import re
from dataclasses import dataclass, field

FILTERS = ("min", "max", "pid")
COUNTERS_THAT_LOSE = ("dropped", "stacks_lost", "contexts_lost")


class DumpError(Exception):
    """The text is not a dump."""


@dataclass
class Group:
    """Outstanding objects that were allocated from one stack."""

    bytes: int
    objects: int
    frames: list = field(default_factory=list)  # "function+0x12 [kernel]", innermost first
    marks: set = field(default_factory=set)  # generations with an object alive
    summary: str = ""  # ages, marks and contexts as the kernel wrote them


@dataclass
class Dump:
    """The trace of one cache."""

    name: str
    header: dict  # state, objsize, depth, mark; min, max, pid if they are set
    counters: dict  # seen, recorded, …: numbers
    groups: list

    def lost(self):
        """What the trace could not keep: {counter: number}, without those that are zero."""
        return {key: self.counters[key] for key in COUNTERS_THAT_LOSE if self.counters.get(key)}

    def broken_identities(self):
        """The identities that do not hold, as text; empty in every true dump."""
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
    """{1, 2, 5} of "1-2,5"."""
    result = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return result


def parse_group(lines):
    head = re.fullmatch(r"(\d+) bytes in (\d+) allocations? from stack", lines[0])
    if not head:
        raise DumpError(f"not a group: {lines[0]!r}")
    group = Group(int(head[1]), int(head[2]))
    for line in lines[1:]:
        text = line.strip()
        marks = re.search(r"\bmarks? ([\d,-]+)", text)
        if text.startswith("age ms ") and marks:
            group.summary, group.marks = text, parse_ranges(marks[1].rstrip(","))
            break
        group.frames.append(text)
    return group


def parse_ctl(text):
    """What #mem/kmemtrace/ctl says: trace memory as {"limit": bytes, "used": bytes}, and the traces, whose groups it does not tell."""
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
    """All dumps in `text`, one after the other; those of caches that are not traced are left out."""
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
        elif re.match(r"\d+ bytes in ", line):
            blocks = [line]
            dumps[-1].groups.append(blocks)
        elif line.startswith("\t") and blocks:
            blocks.append(line)
    for dump in dumps:
        if dump.header["state"] != "off" and not dump.counters:
            raise DumpError(f"{dump.name}: no counters")
        dump.groups = [parse_group(block) for block in dump.groups]
    return [dump for dump in dumps if dump.header["state"] != "off"]
