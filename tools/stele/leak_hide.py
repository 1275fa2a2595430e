"""Hides findings that the leak test shall not accuse. The report only counts the hidden findings. These objects are hidden:

- Objects that the kernel declares to stay (`kmem_not_leak`).
- Objects that a suppression names. The file of suppressions has lines `[CACHE:]FUNCTION REASON`. A line hides the objects of the cache or arena
  CACHE whose stack contains FUNCTION. A line without CACHE applies to all caches and arenas. `#` begins a comment.
- Objects that an earlier run has found. The baseline, which is the JSON report of that run, accuses objects of the same cache with the same
  functions in their stack.

The growth of a cache in the untraced runs is hidden if the traced runs have left only hidden objects of the cache, and if one of these holds:

- The growth per untraced run is at most twice the amount of hidden objects that a traced run has left.
- The growth per untraced run is at most twice the growth per run in the baseline.

The factor of two allows for differences between runs.
"""
import json
from dataclasses import dataclass, field, replace

NOT_A_LEAK = "declared by the kernel to stay (kmem_not_leak)"
KNOWN = "in the baseline"
MOST_TIMES = 2  # growth is hidden up to this multiple of the hidden objects, or of the baseline's growth


class HideError(Exception):
    """A file of suppressions or a baseline is invalid."""


@dataclass
class Hidden:
    """Findings that were hidden for one reason."""

    why: str
    groups: list = field(default_factory=list)
    growths: list = field(default_factory=list)  # Growths

    @property
    def objects(self):
        return sum(len(group.records) for group in self.groups)

    @property
    def bytes(self):
        return sum(group.bytes for group in self.groups)


@dataclass(frozen=True)
class Suppression:
    name: str  # name of the cache or arena; "" for all
    function: str
    reason: str

    def hides(self, group):
        return self.name in ("", group.name) and self.function in functions_of(group)

    def __str__(self):
        return f"{self.name}:{self.function}: {self.reason}" if self.name else f"{self.function}: {self.reason}"


@dataclass(frozen=True)
class Baseline:
    """The findings of an earlier run. `stacks` has (name of the cache, functions of the stack) for each accused stack. `growths` is {name of the
    cache: (objects, bytes) per run}."""

    stacks: frozenset = frozenset()
    growths: dict = field(default_factory=dict)

    def explains(self, growth):
        if growth.name not in self.growths:
            return False
        objects, size = self.growths[growth.name]
        return growth.objects <= MOST_TIMES * max(objects, 0) * growth.runs and growth.bytes <= MOST_TIMES * max(size, 0) * growth.runs


def functions_of(group):
    """Returns the functions of the group's stack, innermost first, with inlined functions and without offsets."""
    return tuple(function.partition("+0x")[0] for frame in group.frames for function, _ in frame)


def parse_suppressions(text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        what, _, reason = line.split("#", 1)[0].strip().partition(" ")
        if not what:
            continue
        if not reason.strip():
            raise HideError(f"line {number}: \"{what}\" has no reason: [CACHE:]FUNCTION REASON")
        # Two colons are part of a C++ name. A single colon separates the cache from the function.
        name, colon, function = what.partition(":")
        if not colon or function.startswith(":"):
            name, function = "", what
        found.append(Suppression(name, function, reason.strip()))
    return found


def parse_baseline(text):
    try:
        results = json.loads(text)["commands"]
        accused = [growth for result in results for growth in result.get("growths", ())]
        leaks = [leak for result in results for leak in result.get("leaks", ())] + [group for growth in accused for group in growth["alive"]]
        leaks += [lost for result in results for lost in result.get("unreachable", ())]
        growths = {}
        for growth in accused:
            rates = growth["objects"] / growth["runs"], growth["bytes"] / growth["runs"]
            growths[growth["name"]] = tuple(map(max, rates, growths.get(growth["name"], rates)))
        return Baseline(frozenset((leak["name"], tuple(leak["stack"])) for leak in leaks), growths)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise HideError("not a report of the leak test in JSON") from error


def hide(groups, growths, runs, suppressions=(), baseline=Baseline()):
    """Returns (groups to judge, growths to judge, [Hidden]). `runs`: number of the traced runs that have left the groups."""
    hidden = {}

    def put_away(why, group):
        hidden.setdefault(why, Hidden(why)).groups.append(group)

    kept = []
    for group in groups:
        staying = [record for record in group.records if record.not_leak]
        if staying:
            put_away(NOT_A_LEAK, replace(group, records=staying))
            group = replace(group, records=[record for record in group.records if not record.not_leak])
        if not group.records:
            continue
        suppression = next((one for one in suppressions if one.hides(group)), None)
        if suppression:
            put_away(str(suppression), group)
        elif (group.name, functions_of(group)) in baseline.stacks:
            put_away(KNOWN, group)
        else:
            kept.append(group)
    accused = []
    for growth in growths:
        why = None if any(growth.has(group.name) for group in kept) else who_explains(growth, hidden.values(), runs, baseline)
        if why:
            hidden.setdefault(why, Hidden(why)).growths.append(growth)
        else:
            accused.append(growth)
    return kept, accused, list(hidden.values())


def who_explains(growth, hidden, runs, baseline):
    """Returns the reason why the growth is hidden; None if it is not hidden."""
    if baseline.explains(growth):
        return KNOWN
    explained = [(one, [group for group in one.groups if growth.has(group.name)]) for one in hidden]
    records = [record for _, groups in explained for group in groups for record in group.records]
    if len(records) < 2:
        return None
    # Allows for one more object, because a rare leak may by chance have left one object fewer in the traced runs. Bytes are compared only if the
    # number of objects has not grown, because bytes compare badly: records have the requested bytes, but counts have the allocated bytes.
    grown, left = (growth.objects, len(records)) if growth.objects > 0 else (growth.bytes, sum(record.size for record in records))
    most = MOST_TIMES * left * (len(records) + 1) / len(records)
    if grown / growth.runs > most / runs:
        return None
    return max(explained, key=lambda pair: sum(group.bytes for group in pair[1]))[0].why
