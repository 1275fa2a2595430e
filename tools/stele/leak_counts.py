"""Judges by counts: what grows when a command runs over and over, whether or not a trace sees it.

#mem/kmemstat has the number of live objects of each cache, and the bytes that direct callers have
of each arena. It is read after each eighth of the runs, when nothing is under way and nothing idles
(`settle`, `reap`). The first eighth is for growth that happens once: tables, magazines, files that
stay. A count that has grown in both halves of the rest and has never fallen is a leak. Counts that
sway, with slabs and their structures for instance, fall back; something that is taken once rises in
one half only. Three looks may show a rise by chance, so with fewer than four a stack must confirm
it.

Memory that is reallocated moves from one of kmalloc's caches to the next, and in the end to the
page arena. None of their counts need rise, so their sum is judged too. So is the sum of the caches
that were made under one name, since a command may make one in each run. Quantum caches are left
out: their arena's line has their objects. Other caches of the allocator itself are accused only if
nothing else is: more objects take more slabs.
"""
import math
import re
from dataclasses import dataclass

KMALLOC = re.compile(r"kmalloc_\d+|page")
QUANTUM_CACHE = re.compile(r"page_\d+")
NUMBERED = re.compile(r"(.+?)\.\d+")  # the kernel's name for a second cache of one name
OF_THE_ALLOCATOR = re.compile(r"kmem_(slab|bufctl|hash|magazine\.\d+)")
FEWEST_LOOKS = 4  # the first does not count
FEWEST_WITHOUT_STACK = 4  # that count, unless a stack confirms the leak
KMALLOC_FAMILY = "kmalloc"
REFERENCES = "ref."  # of the objects of the cache that follows


@dataclass
class Count:
    """A line of kmemstat."""

    bytes: int
    live: int
    can_be_traced: bool
    memory: bool  # memory, and not counted in another line or the tracer's


@dataclass
class Look:
    """Live counts after `runs` runs."""

    runs: int
    time: int  # since boot, in hundredths of a second
    at_rest: bool  # caches had stopped changing
    counts: dict  # {name: Count}


@dataclass
class Growth:
    """An accusation."""

    name: str  # of a cache or arena; KMALLOC_FAMILY: the caches of kmalloc and the page arena together
    objects: int
    bytes: int
    runs: int
    seconds: float
    looks: int  # looks that counted
    can_be_traced: bool
    by_time: bool = False  # it also grows while nothing runs

    @property
    def rate(self):
        """Objects in a second, or bytes if the number of objects does not grow."""
        return (self.objects if self.objects > 0 else self.bytes) / max(self.seconds, 0.01)

    def __str__(self):
        if self.name.startswith(REFERENCES):
            objects = self.name.removeprefix(REFERENCES)
            return f"{self.objects} references to objects of {objects} in {self.runs} untraced runs ({self.looks} looks)"
        size = f"{self.objects} objects, {self.bytes} bytes" if self.objects > 0 else f"{self.bytes} bytes"
        name = "kmalloc's caches and page together" if self.name == KMALLOC_FAMILY else self.name
        while_idle = f", and grows as well while nothing runs: by time ({self.seconds:.1f} s)" if self.by_time else ""
        return f"{size} of {name} in {self.runs} untraced runs ({self.looks} looks){while_idle}"

    def has(self, name):
        """Can the leaked objects be of this cache or arena? A reallocated object may still be
        smaller, or already larger."""
        moves = self.name == KMALLOC_FAMILY or (self.objects <= 0 and KMALLOC.fullmatch(self.name))
        return bool(KMALLOC.fullmatch(name)) if moves else name == self.name


def family(name):
    """The name under which a cache or arena was made. A command's own caches are NAME, NAME.2,
    NAME.3 …, and leak together."""
    numbered = NUMBERED.fullmatch(name)
    return numbered[1] if numbered and not OF_THE_ALLOCATOR.fullmatch(name) else name


def parse_counts(text):
    """{name: Count} of #mem/kmemstat."""
    counts = {}
    for words in map(str.split, text.splitlines()):
        if len(words) == 9 and words[1] in ("A", "S", "R"):
            name, kind, _, _, allocated, live, _, _, traced = words
            memory = kind != "R" and name not in ("kernel_virtual", "trace") and not QUANTUM_CACHE.fullmatch(name)
            counts[name] = Count(int(allocated), int(live), traced != "never", memory)
    return counts


def grown(before, after):
    """Growth between two kmemstats, most bytes first: [(bytes, objects, name)]."""
    nothing = Count(0, 0, True, True)
    lines = [(count.bytes - before.get(name, nothing).bytes, count.live - before.get(name, nothing).live, name)
             for name, count in after.items() if count.memory]
    return sorted((line for line in lines if line[0] > 0), reverse=True)


def reference_rises(before, after):
    """{kind: growth of the number of references} between two kmemstats."""
    return {name: count.live - (before[name].live if name in before else 0) for name, count in after.items() if name.startswith(REFERENCES)}


def rises(values):
    """Has it risen in both halves, without falling back?"""
    return list(values) == sorted(values) and values[0] < values[len(values) // 2] < values[-1]


def judge_counts(looks):
    """The accusations by the looks after each eighth: [Growth], in the order of kmemstat. [] if
    there are too few looks."""
    if len(looks) < FEWEST_LOOKS:
        return []
    looks = looks[1:]
    known = {name: count for look in looks for name, count in look.counts.items() if not QUANTUM_CACHE.fullmatch(name)}

    def series(name, field):
        return [getattr(look.counts[name], field) if name in look.counts else 0 for look in looks]

    def growth(name, members):
        sums = {field: [sum(values) for values in zip(*(series(member, field) for member in members))] for field in ("bytes", "live")}
        if not any(map(rises, sums.values())):
            return []
        first, last = looks[0], looks[-1]
        return [Growth(name, sums["live"][-1] - sums["live"][0], sums["bytes"][-1] - sums["bytes"][0], last.runs - first.runs,
                       (last.time - first.time) / 100, len(looks), any(known[member].can_be_traced for member in members))]

    families = {}
    for name in known:
        families.setdefault(family(name), []).append(name)
    accused = [one for name, members in families.items() for one in growth(name, members)]
    moving = [name for name in known if KMALLOC.fullmatch(name)]
    if moving and not any(KMALLOC.fullmatch(one.name) for one in accused):
        accused += growth(KMALLOC_FAMILY, moving)
    return [one for one in accused if not OF_THE_ALLOCATOR.fullmatch(one.name)] or accused


def mark_by_time(accused, idle):
    """Marks accusations that also grow while nothing runs, at least half as fast. The margin is
    for leaks by the waiting processes, of which eight end."""
    while_idle = {growth.name: growth.rate for growth in judge_counts(idle)}
    for growth in accused:
        growth.by_time = 2 * while_idle.get(growth.name, 0) >= growth.rate


MOST_RUNS, MOST_SECONDS, RUNS_FOR_AN_OBJECT = 256, 40, 3


def runs_that_name(accused, repeat):
    """The number of traced runs that should leave two objects of each accusation, or one that has
    grown, with a margin; at least `repeat`."""
    slowest = max((growth.runs / growth.objects for growth in accused if growth.can_be_traced and growth.objects > 0), default=1)
    return max(repeat, min(MOST_RUNS, round(2 * RUNS_FOR_AN_OBJECT * slowest)) if accused else 0)


def seconds_that_name(accused):
    """The time limit of these runs. For growth by time it suffices for two objects of each, with a
    margin."""
    named = [growth for growth in accused if growth.can_be_traced and growth.objects > 0]
    if not named or not all(growth.by_time for growth in named):
        return MOST_SECONDS
    return min(MOST_SECONDS, math.ceil(2 * RUNS_FOR_AN_OBJECT * max(growth.seconds / growth.objects for growth in named)))
