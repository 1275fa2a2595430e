"""Writes a Profile as one self-contained HTML file: flame graph, growth over marks, table of
stacks.

The page's text, style and program are in tools/report-page; `make report-page` bundles them with their
libraries into build/report/. The written file is this bundle with the profile as JSON. All names in a
profile are untrusted: they are only in the JSON, in which "<" is escaped, and the page's program shows
them as text, never as HTML. The page has a content security policy that forbids other scripts and the
network.

A browser loads 20,000 stacks in a few seconds. If a profile has more than MOST_STACKS stacks, the page
has the stacks with the largest amounts, and the total of the other stacks.
"""
import base64
import hashlib
import json
import pathlib
import re
from collections import defaultdict

from stele.build import ROOT, build_folder
from stele.report.profile import AGES, Amount, ReportError
from stele.report.text import Source as SourceText

MOST_STACKS = 20_000
MOST_MARKS = 128  # if there are more marks, a column of the chart represents several marks
MOST_OF_A_STACK = 50  # maximum number of processes, and of references that were not put, that the page lists for a stack


def write(profile, path, base=None, root=ROOT):
    """Writes the page to `path`. `base`: for a difference, the name of the file that was subtracted; otherwise None. `root`: folder of the sources.
    Raises ReportError if the bundle is not built, and OSError."""
    parts = {name: built(name) for name in ("page.html", "page.css", "page.js")}
    data = json.dumps(contents(profile, base, root), separators=(",", ":")).translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&"})
    policy = f"default-src 'none'; style-src '{digest(parts['page.css'])}'; script-src '{digest(parts['page.js'])}'"
    fields = {"policy": policy, "style": parts["page.css"], "script": parts["page.js"], "data": data}
    page = re.sub(r"\{\{(\w+)\}\}", lambda field: fields[field[1]], parts["page.html"])
    pathlib.Path(path).write_text(page, encoding="utf-8")


def built(name):
    try:
        return (build_folder() / "report" / name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ReportError(f"{error.filename}: is not there: make report-page") from error


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def contents(profile, base, root):
    """Returns the page's data, which tools/report-page/src/profile.js reads."""
    numbers = Numbers()
    stacks = by_stack(profile, numbers)
    ordered = sorted(stacks.items(), key=lambda item: (-abs(item[1].amount.bytes), -abs(item[1].amount.objects)))
    rest = Amount()
    for _, stack in ordered[MOST_STACKS:]:
        rest.add(stack.amount)
    width = mark_width(profile)
    frames = Frames(numbers, SourceText(root))
    kept = [stack.contents(source, kernel, user, frames, width) for (source, kernel, user), stack in ordered[:MOST_STACKS]]
    return {
        "title": profile.title, "base": str(base) if base else None, "buildId": profile.build_id, "seconds": profile.seconds,
        "difference": bool(base) or any(amount.bytes < 0 or amount.objects < 0 for amount in profile.amounts.values()),
        "total": pair(profile.total()), "incomplete": profile.incomplete, "ages": AGES, "markWidth": width,
        "leftOut": {"stacks": len(ordered) - MOST_STACKS, "amount": pair(rest)} if len(ordered) > MOST_STACKS else None,
        "stacks": kept, "frames": frames.contents(),
        "sources": [{"name": source.name, "kind": source.kind, "state": source.state, "objectSize": source.object_size,
                     "options": source.options, "counters": source.counters} for source in profile.sources.values()],
    }


class Stack:
    """All Keys with the same source, kernel stack and user stack: their total, and the sums for each process, mark and age."""

    def __init__(self):
        self.amount = Amount()
        self.processes, self.marks, self.ages, self.holders = defaultdict(Amount), defaultdict(Amount), defaultdict(Amount), []

    def add(self, key, amount, holders):
        for sum_ in (self.amount, self.processes[key.process], self.marks[key.mark], self.ages[key.age]):
            sum_.add(amount)
        self.holders += holders

    def contents(self, source, kernel, user, frames, width):
        processes = sorted(self.processes.items(), key=lambda item: (-abs(item[1].bytes), -abs(item[1].objects), item[0]))
        marks = defaultdict(Amount)
        for mark, amount in self.marks.items():
            marks[mark - mark % width].add(amount)
        return {"source": source, "kernel": frames.numbers(kernel), "user": frames.numbers(user), "amount": pair(self.amount),
                "ever": [self.amount.all_bytes, self.amount.all_objects], "marks": [[mark, *pair(amount)] for mark, amount in sorted(marks.items())],
                "firstMark": min(self.marks), "lastMark": max(self.marks),
                "processes": [[name, *pair(amount)] for name, amount in processes[:MOST_OF_A_STACK]], "processCount": len(processes),
                "ages": [[AGES.index(age) if age in AGES else -1, *pair(amount)] for age, amount in self.ages.items()],
                "holders": self.holders[:MOST_OF_A_STACK], "holderCount": len(self.holders)}


def pair(amount):
    return [amount.bytes, amount.objects]


def by_stack(profile, numbers):
    """Returns {(source, numbers of the kernel's frames, numbers of the program's frames): Stack}."""
    stacks = defaultdict(Stack)
    for key, amount in profile.amounts.items():
        holders = profile.holders.get(key, ()) if profile.holders else ()
        stacks[key.source, numbers.of(key.frames), numbers.of(key.user_frames)].add(key, amount, holders)
    return stacks


def mark_width(profile):
    """Returns the number of marks that a column of the chart represents."""
    marks = {key.mark for key in profile.amounts} or {0}
    return 1 + (max(marks) - min(marks)) // MOST_MARKS


class Numbers:
    """Numbers the frames. Frames that differ only in address or build id have the same number. A tuple of numbers is a dictionary key that
    is quick to compare."""

    def __init__(self):
        self.frames, self._numbers = [], {}

    def of(self, frames):
        return tuple(map(self._number, frames))

    def _number(self, frame):
        name = (frame.function, frame.file, frame.line, frame.module, frame.inlined)
        number = self._numbers.setdefault(name, len(self.frames))
        if number == len(self.frames):
            self.frames.append(frame)
        return number


class Frames:
    """The frames that the page has. Each occurs once, with a number in the order of first use. `numbers`: a Numbers."""

    def __init__(self, numbers, source_text):
        self._all, self._source_text, self._numbers = numbers.frames, source_text, {}

    def numbers(self, stack):
        return [self._numbers.setdefault(number, len(self._numbers)) for number in stack]

    def contents(self):
        frames = (self._all[number] for number in self._numbers)
        return [[frame.function, frame.file, frame.line, frame.module, int(frame.inlined), self._source_text.line(frame)] for frame in frames]
