"""Makes a Profile from the output of the guest's program memleak (docs/memleak.md). If there are several reports, only the last one counts, since
each has all outstanding allocations. Reports of memleak --diff have the changes since the previous report, so they are added up."""
import re

from stele.report.profile import Amount, Frame, Key, Profile, ReportError, Source

NAME = "memleak"  # name of the source, since the output has no cache
HEADING = re.compile(r"^(?:\S+ )?\[\d\d:\d\d:\d\d\] Top (\d+) stacks with (outstanding|changed outstanding) allocations:$", re.MULTILINE)
STACK = re.compile(r"\t([+-]?\d{1,19}) bytes in ([+-]?\d{1,19}) allocations from stack")
FRAME = re.compile(r"\t\t(?P<function>.+?)(?:\+0x[0-9a-f]+)?(?: \[(?P<module>[^\]]*)\])?")
LEFT_OUT = re.compile(r"Left out: (?P<counts>.*?)(?:; (?P<rest>.*))?")
# Counters of what is missing. The other counters of `Left out:` count allocations that memleak leaves out
# because of its options.
LOSES = ("dropped", "stacks_lost", "contexts_lost", "truncated")


def read(path, text):
    """Parses memleak's output to a Profile. Raises ReportError."""
    headings = list(HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    reports = [(heading, text[heading.end() + 1:end]) for heading, end in zip(headings, ends)]
    if headings[-1][2] == "outstanding":
        reports = reports[-1:]
    profile = Profile(str(path), sources={NAME: Source(NAME, "probe")})
    for heading, body in reports:
        add(profile, path, int(heading[1]), body)
    if not text.endswith("\n"):
        raise ReportError(f"{path}: cut off: the last line does not end")
    profile.incomplete = list(dict.fromkeys(profile.incomplete))
    return profile


def add(profile, path, wanted, body):
    """Adds the stacks of one report. `body`: the report's text after the heading. Raises ReportError if it does not have `wanted` stacks and a line
    `Left out:`."""
    groups, left = [], None
    for line in body.splitlines():
        if stack := STACK.fullmatch(line):
            groups.append((Amount(int(stack[2]), int(stack[1])), []))
        elif line.startswith("\t\t") and groups:
            groups[-1][1].append(line)
        elif left := LEFT_OUT.fullmatch(line):
            break
        elif not re.fullmatch(r"\taddr = [0-9a-f]+ size = \d+", line):
            raise ReportError(f"{path}: not what memleak prints: {line[:60]!r}")
    if not left or len(groups) != wanted:
        raise ReportError(f"{path}: cut off: a report of memleak with {len(groups)} of {wanted} stacks" + ("" if left else ", without its end"))
    profile.incomplete += missing(left)
    for amount, lines in groups:
        frames = [frame(line) for line in lines] if lines != ["\t\tstack information lost"] else []
        profile.add(Key(NAME, tuple(f for f in frames if f.module == "kernel"), tuple(f for f in frames if f.module != "kernel")), amount)


def frame(line):
    match = FRAME.fullmatch(line)
    return Frame(match["function"], module=match["module"] or "program") if match else Frame("?", module="program")


def missing(left):
    """Returns lines about what is missing, from a match of the line `Left out: dropped 0, filtered 0, …, further_stacks 3 (96 B in 2); …`."""
    counts = dict(re.findall(r"(\w+) (\d+)", re.sub(r"\([^)]*\)", "", left["counts"])))
    lines = [f"{counts[word]} {word.replace('_', ' ')}" for word in LOSES if int(counts.get(word, 0))]
    further = re.search(r"further_stacks ([1-9]\d*) \(([^)]*)\)", left["counts"])
    return lines + ([f"{further[1]} further stacks, {further[2]}, which memleak did not print (-T)"] if further else [])
