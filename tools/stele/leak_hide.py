"""What a leak test finds and is told not to accuse. It is counted in the report.

- Objects that the kernel's own code declares to stay (`kmem_not_leak`).
- Suppressions: a file with a line `[CACHE:]FUNCTION REASON` for each. They hide what was allocated from stacks in which the function is,
  by the cache or arena, or by any. `#` begins a comment.
- A baseline: the JSON report of an earlier run. What it accused, by the same functions from the same cache, is not accused again.

What grew in the untraced runs is hidden if the traced ones left nothing of that cache but what is hidden.
"""
import json
from dataclasses import dataclass, field, replace

NOT_A_LEAK = "declared by the kernel to stay (kmem_not_leak)"
KNOWN = "in the baseline"


class HideError(Exception):
    """A file that says what is to be hidden does not make sense."""


@dataclass
class Hidden:
    """What was hidden for one reason."""

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
    name: str  # of the cache or arena; "" for all
    function: str
    reason: str

    def hides(self, group):
        return self.name in ("", group.name) and self.function in functions_of(group)

    def __str__(self):
        return f"{self.name}:{self.function}: {self.reason}" if self.name else f"{self.function}: {self.reason}"


@dataclass(frozen=True)
class Baseline:
    """What was accused before: (name, functions of the stack), and the names of what grew."""

    stacks: frozenset = frozenset()
    growths: frozenset = frozenset()


def functions_of(group):
    """All of its stack, innermost first, inlined ones too, without offsets."""
    return tuple(function.partition("+0x")[0] for frame in group.frames for function, _ in frame)


def parse_suppressions(text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        what, _, reason = line.split("#", 1)[0].strip().partition(" ")
        if not what:
            continue
        if not reason.strip():
            raise HideError(f"line {number}: \"{what}\" has no reason: [CACHE:]FUNCTION REASON")
        # A C++ function has colons of its own, two at a time.
        name, colon, function = what.partition(":")
        if not colon or function.startswith(":"):
            name, function = "", what
        found.append(Suppression(name, function, reason.strip()))
    return found


def parse_baseline(text):
    try:
        results = json.loads(text)["commands"]
        return Baseline(frozenset((leak["name"], tuple(leak["stack"])) for result in results for leak in result.get("leaks", ())),
                        frozenset(growth["name"] for result in results for growth in result.get("growths", ())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HideError("not a report of the leak test in JSON") from error


def hide(groups, growths, suppressions=(), baseline=Baseline()):
    """(groups, growths, [Hidden]): what is to be judged, and what is not."""
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
        if growth.name in baseline.growths:
            hidden.setdefault(KNOWN, Hidden(KNOWN)).growths.append(growth)
            continue
        mine = next((one for one in hidden.values() if sum(len(g.records) for g in one.groups if growth.has(g.name)) > 1), None)
        if mine and not any(growth.has(group.name) for group in kept):
            mine.growths.append(growth)
        else:
            accused.append(growth)
    return kept, accused, list(hidden.values())
