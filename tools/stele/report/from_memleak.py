"""Makes a Profile of what the guest's memleak has printed (docs/memleak.md). Of several reports in a row the last one counts: each tells all
that was outstanding then."""
import re

from stele.report.profile import Amount, Frame, Key, Profile, ReportError, Source

HEADING = re.compile(r"^(?:\S+ )?\[\d\d:\d\d:\d\d\] Top (\d+) stacks with (?:outstanding|changed outstanding) allocations:$", re.MULTILINE)
STACK = re.compile(r"\t([+-]?\d{1,19}) bytes in ([+-]?\d{1,19}) allocations from stack")
FRAME = re.compile(r"\t\t(?P<function>.+?)(?:\+0x[0-9a-f]+)?(?: \[(?P<module>[^\]]*)\])?")
LEFT_OUT = re.compile(r"Left out: (?P<counts>.*?)(?:; (?P<rest>.*))?")
# What memleak leaves out on purpose, as it was told, is not lost.
LOSES = ("dropped", "stacks_lost", "contexts_lost", "truncated")


def read(path, text):
    """ReportError."""
    heading = list(HEADING.finditer(text))[-1]
    profile, groups, ended = Profile(str(path)), [], False
    for line in text[heading.end() + 1:].splitlines():
        if stack := STACK.fullmatch(line):
            groups.append((Amount(int(stack[2]), int(stack[1])), []))
        elif line.startswith("\t\t") and groups:
            groups[-1][1].append(line)
        elif left := LEFT_OUT.fullmatch(line):
            profile.lost += lost(left)
            ended = True
            break
        elif not re.fullmatch(r"\taddr = [0-9a-f]+ size = \d+", line):
            raise ReportError(f"{path}: not what memleak prints: {line[:60]!r}")
    if not ended or len(groups) != int(heading[1]) or not text.endswith("\n"):
        raise ReportError(f"{path}: cut off: the last report of memleak has {len(groups)} of {heading[1]} stacks"
                          if len(groups) != int(heading[1]) else f"{path}: cut off: the last report of memleak has no end")
    name = "memleak"
    profile.sources[name] = Source(name, "probe")
    for amount, lines in groups:
        frames = [frame(line) for line in lines] if lines != ["\t\tstack information lost"] else []
        profile.add(Key(name, tuple(f for f in frames if f.module == "kernel"), tuple(f for f in frames if f.module != "kernel")), amount)
    return profile


def frame(line):
    match = FRAME.fullmatch(line)
    return Frame(match["function"], module=match["module"] or "program") if match else Frame("?", module="program")


def lost(left):
    """Of `Left out: dropped 0, filtered 0, …, further_stacks 3 (96 B in 2); …`"""
    counts = dict(re.findall(r"(\w+) (\d+)", re.sub(r"\([^)]*\)", "", left["counts"])))
    lines = [f"{counts[word]} {word.replace('_', ' ')}" for word in LOSES if int(counts.get(word, 0))]
    further = re.search(r"further_stacks ([1-9]\d*) \(([^)]*)\)", left["counts"])
    return lines + ([f"{further[1]} further stacks, {further[2]}, which memleak did not print (-T)"] if further else [])
