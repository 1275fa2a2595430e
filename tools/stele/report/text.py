"""Writes a Profile as text: by stack, or as a table by function, cache or process.

The total comes first. The reasons why the data is incomplete follow, because missing data is as
important as the data. Then come the stacks or the table, largest first. Under each frame of a stack is
its source line, if the checkout has the file.
"""
import functools
import pathlib
from collections import defaultdict

from stele.debugging import ROOT
from stele.report.profile import Amount, comparable

BY = ("stack", "function", "cache", "process")
USER_STACKS_SHOWN, NAMES_SHOWN, HOLDERS_SHOWN = 8, 4, 4


def lines_of(profile, by="stack", base=None, root=ROOT):
    """Yields the lines of the report. `base`: for a difference, the name of the file that was subtracted; otherwise None."""
    yield from heading(profile, base)
    yield ""
    if by == "stack":
        yield from stacks(profile, bool(base), Source(root))
    else:
        yield from table(profile, by, bool(base))


def heading(profile, base):
    sources = {key.source for key in profile.amounts}
    yield printable(profile.title) + (f", what has changed since {printable(base)}" if base else "")
    stacks_count = len({(key.source, stack_of(key)) for key in map(comparable, profile.amounts)})
    nouns = {noun_of(profile, name) for name in sources}
    noun = nouns.pop() if len(nouns) == 1 else "objects"
    yield f"{amount_of(profile.total(), bool(base), noun)} from {stacks_count} stacks of {len(sources)} sources"
    if profile.incomplete:
        yield "incomplete: " + printable(profile.incomplete[0])
        yield from (f"            {printable(line)}" for line in profile.incomplete[1:])
    else:
        yield "complete"
    # The report of a difference has no lines about the sources, because the options and counters of the older profile's sources are not known.
    for name in sorted(sources & set(profile.sources)) if not base else ():
        yield from source_line(profile.sources[name])


def source_line(source):
    words = [f"{key} {value}" for key, value in (*source.options.items(), *source.counters.items()) if value]
    if words:
        yield f"{source.kind or 'source'} {printable(source.name)}{', ' + source.state if source.state else ''}: {', '.join(words)}"


def amount_of(amount, signed=False, noun="objects"):
    """Returns an Amount as text: "96 bytes in 3 objects"; "3 references" if the objects have no size; "96 bytes" if the number of objects is not
    known."""
    form = "+d" if signed else "d"
    count = f"{amount.objects:{form}} {noun}"
    return f"{amount.bytes:{form}} bytes in {count}" if amount.bytes and amount.objects else f"{amount.bytes:{form}} bytes" if amount.bytes else count


def noun_of(profile, name):
    """Returns the word for what a source counts: objects, references or calls."""
    kind = profile.sources[name].kind if name in profile.sources else ""
    return kind if kind in ("references", "calls") else "objects"


def stack_of(key):
    """Returns the frames that the report groups a Key by: the kernel's frames, or the program's frames if the Key has no kernel stack."""
    return key.frames or key.user_frames


def size_of(amount):
    """Returns a sort key that puts the largest Amount first."""
    return -abs(amount.bytes), -abs(amount.objects)


class Source:
    """Reads source lines of files in the checkout `root`."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()

    @functools.lru_cache(maxsize=256)
    def _lines(self, file):
        path = (self.root / file).resolve()
        # A profile is untrusted, and must not show files outside of the checkout.
        if not path.is_relative_to(self.root) or not path.is_file():
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()

    def line(self, frame):
        """Returns the source line of a frame, without indentation; "" if the line is not known."""
        try:
            lines = self._lines(frame.file) if frame.line > 0 and frame.file else []
        except (OSError, ValueError):
            return ""
        return printable(" ".join(lines[frame.line - 1].split())) if 0 < frame.line <= len(lines) else ""


def stacks(profile, signed, source):
    groups = defaultdict(dict)
    for key, amount in profile.amounts.items():
        same = comparable(key)
        groups[same.source, stack_of(same)][key] = amount
    for (name, frames), members in sorted(groups.items(), key=lambda item: (*size_of(summed(item[1].values())), item[0][0])):
        noun = noun_of(profile, name)
        yield f"{amount_of(summed(members.values()), signed, noun)} of {printable(name)} from stack"
        yield from frame_lines(frames, source, "    ") if frames else ["    the stack was not recorded"]
        yield from about(members)
        yield from user_stacks(members, signed, source, noun)
        yield from holders(profile, members)
        yield ""


def summed(amounts):
    total = Amount()
    for amount in amounts:
        total.add(amount)
    return total


def frame_lines(frames, source, indent):
    for frame in frames:
        place = f"  {printable(frame.file)}:{frame.line}" if frame.line else ""
        yield f"{indent}{printable(frame.function)}{' (inlined)' if frame.inlined else ''}{place}"
        if text := source.line(frame):
            yield f"{indent}    {text}"


def about(members):
    """Yields a line with the marks, ages and processes of a group of Keys. Ages and processes with the largest Amounts come first."""
    facts = []
    marks = sorted({key.mark for key in members})
    if any(marks):
        facts.append("marks " + ", ".join(map(str, marks[:NAMES_SHOWN])) + (f" and {len(marks) - NAMES_SHOWN} more" if len(marks) > NAMES_SHOWN else ""))
    for what, attribute in (("age", "age"), ("by", "process")):
        names = most_first(members, attribute)
        if names:
            facts.append(f"{what} " + ", ".join(names[:NAMES_SHOWN]) + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""))
    if facts:
        yield "    " + "; ".join(facts)


def most_first(members, attribute):
    sums = defaultdict(Amount)
    for key, amount in members.items():
        sums[getattr(key, attribute)].add(amount)
    return [printable(name) for name, _ in sorted(sums.items(), key=lambda item: (*size_of(item[1]), item[0])) if name]


def user_stacks(members, signed, source, noun):
    sums = defaultdict(Amount)
    for key, amount in members.items():
        if key.frames and key.user_frames:
            sums[comparable(key).user_frames].add(amount)
    ordered = sorted(sums.items(), key=lambda item: size_of(item[1]))
    for frames, amount in ordered[:USER_STACKS_SHOWN]:
        yield f"    called from {printable(program_of(frames))}, {amount_of(amount, signed, noun)}"
        yield from frame_lines(frames, source, "        ")
    if len(ordered) > USER_STACKS_SHOWN:
        yield f"    and from {len(ordered) - USER_STACKS_SHOWN} more stacks of programs"


def program_of(frames):
    module = frames[0].module
    return module if module not in ("", "program") else "a program"


def holders(profile, members):
    found = [line for key in members for line in profile.holders.get(key, ())]
    yield from (f"    held by {printable(line)}" for line in found[:HOLDERS_SHOWN])
    if len(found) > HOLDERS_SHOWN:
        yield f"    held by {len(found) - HOLDERS_SHOWN} more"


def table(profile, by, signed):
    """Yields the lines of a table with bytes and objects for each function, cache or process. A table of functions has two more
    columns, which include the allocations of a function's callees."""
    own, within = defaultdict(Amount), defaultdict(Amount)
    for key, amount in profile.amounts.items():
        if by == "function":
            frames = (*key.frames, *key.user_frames)
            names = [frame.function for frame in frames] or ["the stack was not recorded"]
            own[names[0]].add(amount)
            for name in set(names):
                within[name].add(amount)
        else:
            own[key.source if by == "cache" else key.process or "not known"].add(amount)
    sign = "+" if signed else ""
    both = " {:>12} {:>10}".format("BYTES WITHIN", "OBJECTS") if within else ""
    yield f"{'BYTES':>12} {'OBJECTS':>10}{both}  {by.upper()}"
    names = within or own
    for name in sorted(names, key=lambda name: (*size_of(own[name]), *size_of(names[name]), name)):
        more = f" {within[name].bytes:>{sign}12d} {within[name].objects:>{sign}10d}" if within else ""
        yield f"{own[name].bytes:>{sign}12d} {own[name].objects:>{sign}10d}{more}  {printable(name)}"


def printable(text):
    """Returns the text with question marks instead of characters that would break a line or control a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
