"""The part of the leak test that judges by reachability: an object that no pointer leads to is a leak, even if only one run has lost an object.

The leak test reads #mem/unreachable (docs/unreachable.md) before and after the runs. An unreachable object stays unreachable. So objects that are
in the second report, but not in the first, were lost in the runs between the reports. If traced runs have allocated the objects, the dump of the
trace has the stacks.
"""
import re
from dataclasses import dataclass, field

from stele.leak_counts import Growth, family
from stele.leak_hide import KNOWN, MOST_TIMES, NOT_A_LEAK, Hidden, functions_of
from stele.leaks import LEAKED, source_lines_of

FIRST = re.compile(r"unreachable objects \d+ bytes \d+ heads \d+ live \d+ looks \d+ returned (\d+) ")
HEADS = re.compile(r"(\d+) bytes in (\d+) objects of (\S+?)( declared to stay)?(?: keeps \d+ bytes in \d+ objects)?(?: from stack)?$")
KEEPS = re.compile(r"\tkeeps (\d+) bytes in (\d+) objects of (\S+)$")
HEAD = re.compile(r"\t0x([0-9a-f]+) size ")
NOT_KNOWN = "it is not known what nobody can reach"


@dataclass
class Lost:
    """Unreachable objects of one cache or arena. No other unreachable object points to them."""

    name: str
    objects: int
    bytes: int
    stays: bool = False  # the kernel has declared that they stay
    keeps: list = field(default_factory=list)  # [(name of a cache or arena, objects, bytes)]: other unreachable objects that these objects lead to
    addresses: list = field(default_factory=list)  # addresses of the first objects
    runs: int = 0  # number of runs between the two reports
    traced: bool = False  # the runs were traced
    group: object = None  # leaks.Group of these objects; None if they were not allocated in traced runs

    def growth(self):
        return Growth(self.name, self.objects, self.bytes, self.runs, 0, 2, True)

    def of(self, group):
        return self.group is not None and key(self.group) == key(group)

    def add(self, other):
        self.objects += other.objects
        self.bytes += other.bytes
        self.addresses += other.addresses
        self.keeps = summed(self.keeps + other.keeps)


@dataclass
class Unreachable:
    """A report of #mem/unreachable."""

    heads: list  # Lost
    returned: int  # number of objects that the previous search missed, but this search has reached; not 0: the kernel's search is wrong

    def totals(self):
        """Returns {name of a cache or arena: number of unreachable objects}."""
        totals = {}
        for head in self.heads:
            for name, objects in [(head.name, head.objects), *((name, objects) for name, objects, _ in head.keeps)]:
                totals[name] = totals.get(name, 0) + objects
        return totals


def key(group):
    return group.name, group.kind, group.stack


def summed(keeps):
    sums = {}
    for name, objects, size in keeps:
        before = sums.get(name, (0, 0))
        sums[name] = before[0] + objects, before[1] + size
    return sorted(((name, *sum_) for name, sum_ in sums.items()), key=lambda one: -one[2])


def parse_unreachable(text):
    """Parses the text of #mem/unreachable to an Unreachable; None if the text is no report."""
    first, *lines = text.splitlines() or [""]
    begin = FIRST.match(first)
    if not begin:
        return None
    heads = []
    for line in lines:
        if match := HEADS.match(line):
            size, objects, name, stays = match.groups()
            heads.append(Lost(family(name), int(objects), int(size), bool(stays)))
        elif match := KEEPS.match(line):
            size, objects, name = match.groups()
            heads[-1].keeps.append((family(name), int(objects), int(size)))
        elif match := HEAD.match(line):
            heads[-1].addresses.append(int(match[1], 16))
    return Unreachable(heads, int(begin[1]))


def lost_since(looks, runs, groups=None):
    """Returns ([Lost], doubts): the objects that `runs` runs have lost. `looks`: the Unreachables from before and after the runs. `groups`: Groups of
    the dump; None if the runs were not traced."""
    if len(looks) != 2 or None in looks:
        return [], [f"{NOT_KNOWN}: there was no memory to look, or the output was cut"]
    before, after = looks
    doubts = [f"{NOT_KNOWN}: {one.returned} objects were unreachable and then reached, so the kernel's marking is wrong"
              for one in looks if one.returned]
    by_address = {(group.name, record.object): group for group in groups or () if group.kind != "references" for record in group.records}
    found = {}
    for head in after.heads:
        head.runs, head.traced = runs, groups is not None
        head.group = next((by_address[head.name, address] for address in head.addresses if (head.name, address) in by_address), None)
        same = found.setdefault((head.name, head.stays, key(head.group) if head.group else None), head)
        if same is not head:
            same.add(head)
    return [lost for lost in found.values() if lost.group or take_away(lost, before, after)], doubts


def take_away(lost, before, after):
    """Subtracts from `lost` the objects that were unreachable before the runs. Returns False if none are left."""
    name, totals = lost.name, (before.totals(), after.totals())
    if totals[0].get(name, 0) >= totals[1].get(name, 0):
        return False
    same = [head for head in before.heads if head.name == name]
    known = {address for head in same for address in head.addresses}
    lost.objects -= sum(head.objects for head in same)
    lost.bytes -= sum(head.bytes for head in same)
    lost.addresses = [address for address in lost.addresses if address not in known]
    return lost.objects > 0


def judge_unreachable(verdict, lost, baseline):
    """Accuses in `verdict` each Lost of `lost` that is not hidden. A loss in the untraced runs is hidden if all of these hold:

    - The traced runs have lost objects of the same cache.
    - All losses of the cache in the traced runs are hidden.
    - The loss per untraced run is not much larger than the loss per traced run."""
    hidden_groups = {key(group) for one in verdict.hidden if one.why != NOT_A_LEAK for group in one.groups}
    in_baseline = [one for one in lost if not one.group and (one.name, ()) in baseline.stacks]
    if in_baseline:
        verdict.hidden.append(Hidden(KNOWN, growths=[one.growth() for one in in_baseline]))
    known = in_baseline + [one for one in lost if one.stays or (one.group and key(one.group) in hidden_groups)]
    accused = [one for one in lost if not any(one is other for other in known)]

    def is_explained(one):
        left = [other for other in known if other.name == one.name and other.traced]
        if one.traced or not left or any(other.name == one.name and other.traced for other in accused):
            return False
        # Allows for one more object, because a rare loss may by chance have left one object fewer in the traced runs.
        return one.objects / one.runs <= MOST_TIMES * (sum(other.objects for other in left) + 1) / left[0].runs

    verdict.unreachable = [one for one in accused if not is_explained(one)]
    for one in verdict.unreachable:
        verdict.status = LEAKED
        for group in verdict.all_groups:
            if one.of(group):
                one.group = group
                group.lost = one
    verdict.others = [group for group in verdict.others if not group.lost]


def amount(size, objects):
    return f"{size} bytes in {objects} objects"


def keeps_line(lost):
    size, objects = sum(one[2] for one in lost.keeps), sum(one[1] for one in lost.keeps)
    return f"    keeps {amount(size, objects)}: " + ", ".join(f"{n} of {name}" for name, n, _ in lost.keeps)


def lost_lines(group):
    """Returns the lines of the report about a group's objects that are unreachable; [] if none are."""
    lost = group.lost
    if not lost:
        return []
    which = "it" if len(group.records) == lost.objects == 1 else "them" if len(group.records) == lost.objects else f"{lost.objects} of them"
    return [f"    nobody can reach {which} any more", *([keeps_line(lost)] if lost.keeps else [])]


def accusations(verdict, shown, describe):
    """Returns the lines of the report about unreachable objects. `describe(group)` returns the lines about their allocation; groups in `shown` are in
    the report already."""
    lines = []
    for one in sorted(verdict.unreachable, key=lambda one: not one.traced):
        lines.append(f"LEAKED (unreachable): nobody can reach {amount(one.bytes, one.objects)} of {one.name}, lost in {one.runs} "
                     f"{'traced' if one.traced else 'untraced'} runs")
        if not one.group:
            lines += without_stack(one, verdict)
        elif any(group is one.group for group in shown):
            lines.append("    from a stack above")
        else:
            lines += ["", *describe(one.group)]
        lines.append("")
    return lines


def without_stack(one, verdict):
    addresses = ", ".join(f"{address:#x}" for address in one.addresses)
    keeps = [keeps_line(one)] if one.keeps else []
    if one.traced:
        return [f"    allocated before the trace began, so no stack is known: {addresses}", *keeps]
    if any(other.name == one.name and other.group for other in verdict.unreachable):
        return ["    from the stacks of that cache or arena above"]
    return ["    the traced runs lost none of it, so no stack is known", *keeps]


def facts(verdict):
    """Returns the unreachable objects as data for the JSON report."""
    return [{"name": one.name, "objects": one.objects, "bytes": one.bytes, "runs": one.runs, "traced": one.traced,
             "keeps": [{"name": name, "objects": objects, "bytes": size} for name, objects, size in one.keeps],
             "addresses": [f"{address:#x}" for address in one.addresses], "stack": list(functions_of(one.group)) if one.group else [],
             "lines": source_lines_of(one.group.frames) if one.group else []}
            for one in verdict.unreachable]
