"""The part of the leak test that judges by counts: accuses caches and arenas that grow while a command runs many times. No trace is needed.

#mem/kmemstat has the number of live objects of each cache, and for each arena the bytes that its direct callers hold. The leak test reads the file
after each eighth of the runs. Such a reading is called a look. Before a look, the test waits until no process of the command is left, and empties
the allocator's caches (`settle`, `reap`). The look after the first eighth is left out, because some growth happens once: tables, magazines, files
that stay. A count is accused as a leak if it falls in none of the remaining looks, and rises in both their first and second half. Counts that go
up and down, such as counts of slabs, fall at some look. Memory that is taken once raises a count in only one half. A rise over three looks may be
chance. So if fewer than four looks remain, a stack in the trace must confirm the leak.

An object that grows by reallocation moves from one of kmalloc's caches to the next, and in the end to the page arena. None of these counts has to
keep rising, so the sum of these counts is judged as well. A command may create a cache in each run, so all caches that were created under one name
are judged by their sum. Quantum caches are left out, because the line of their arena counts the same objects. When any cache leaks, the
caches in which the allocator keeps its own structures (kmem_slab, kmem_bufctl, kmem_hash, kmem_magazine.BYTES) may grow as well, and so may
the arena `debug` (the lists of #debug/alloc). So these caches and this arena are accused only if nothing else is accused.
"""
import math
import re
from dataclasses import dataclass

KMALLOC = re.compile(r"kmalloc_\d+|bytes_\d+|page")
QUANTUM_CACHE = re.compile(r"page_\d+")
NUMBERED = re.compile(r"(.+?)\.\d+")  # the name that the kernel gives to the second, third … cache created under one name
OF_THE_ALLOCATOR = re.compile(r"kmem_(slab|bufctl|hash|magazine\.\d+)|debug")
FEWEST_LOOKS = 4  # fewest looks for a judgement, including the first look, which is left out
FEWEST_WITHOUT_STACK = 4  # fewest looks, not counting the first, for an accusation that no stack in the trace confirms
KMALLOC_FAMILY = "kmalloc"
REFERENCES = "ref."  # a class of references is named with this prefix and the name of the objects: their cache's name, if they have a cache


@dataclass
class Count:
    """A line of kmemstat."""

    bytes: int
    live: int
    can_be_traced: bool
    memory: bool  # False if another line counts the same memory, or if the memory is the tracer's


@dataclass
class Look:
    """Live counts after `runs` runs."""

    runs: int
    time: int  # since boot, in hundredths of a second
    at_rest: bool  # caches had stopped changing
    counts: dict  # {name: Count}


@dataclass
class Growth:
    """The growth of a count that is accused as a leak."""

    name: str  # name of a cache or arena; KMALLOC_FAMILY: the caches of kmalloc and the page arena together
    objects: int
    bytes: int
    runs: int
    seconds: float
    looks: int  # number of looks that were judged
    can_be_traced: bool
    moved: str = ""  # for an object that is reallocated larger: the caches that it has gone through
    by_time: bool = False  # the count also grows while the command does not run

    @property
    def rate(self):
        """The growth in objects per second; in bytes per second if the number of objects does not grow."""
        return (self.objects if self.objects > 0 else self.bytes) / max(self.seconds, 0.01)

    def __str__(self):
        if self.name.startswith(REFERENCES):
            objects = self.name.removeprefix(REFERENCES)
            return f"{self.objects} references to objects of {objects} in {self.runs} untraced runs ({self.looks} looks)"
        if self.moved:
            return f"{self.bytes} bytes of one object that is reallocated, through {self.moved}, in {self.runs} untraced runs ({self.looks} looks)"
        size = f"{self.objects} objects, {self.bytes} bytes" if self.objects > 0 else f"{self.bytes} bytes"
        name = "kmalloc's caches and page together" if self.name == KMALLOC_FAMILY else self.name
        while_idle = f", and grows as well while nothing runs: by time ({self.seconds:.1f} s)" if self.by_time else ""
        return f"{size} of {name} in {self.runs} untraced runs ({self.looks} looks){while_idle}"

    def has(self, name):
        """True if the leaked objects may be in the cache or arena `name`. An object that grows by reallocation may be in any of kmalloc's caches, or
        in the page arena."""
        return bool(KMALLOC.fullmatch(name)) if self.moves else name == self.name

    @property
    def moves(self):
        """True if an object may have grown by reallocation."""
        return self.name == KMALLOC_FAMILY or bool(self.objects <= 0 and KMALLOC.fullmatch(self.name))


def family(name):
    """Returns the name under which a cache or arena was created: NAME for NAME.2, NAME.3 …. Caches that a command creates in each run have such
    names, and are judged together."""
    numbered = NUMBERED.fullmatch(name)
    return numbered[1] if numbered and not OF_THE_ALLOCATOR.fullmatch(name) else name


def parse_counts(text):
    """Parses #mem/kmemstat to {name: Count}."""
    counts = {}
    for words in map(str.split, text.splitlines()):
        if len(words) == 9 and words[1] in ("A", "S", "R"):
            name, kind, _, _, allocated, live, _, _, traced = words
            memory = kind != "R" and name not in ("kernel_virtual", "trace") and not QUANTUM_CACHE.fullmatch(name)
            counts[name] = Count(int(allocated), int(live), traced != "never", memory)
    return counts


def grown(before, after):
    """Returns what has grown between two kmemstats, most bytes first: [(bytes, objects, name)]."""
    nothing = Count(0, 0, True, True)
    lines = [(count.bytes - before.get(name, nothing).bytes, count.live - before.get(name, nothing).live, name)
             for name, count in after.items() if count.memory]
    return sorted((line for line in lines if line[0] > 0), reverse=True)


def reference_rises(before, after):
    """Returns {class of references: growth of the number of references} between two kmemstats."""
    return {name: count.live - (before[name].live if name in before else 0) for name, count in after.items() if name.startswith(REFERENCES)}


def rises(values):
    """True if the values never fall, and rise in both halves."""
    return list(values) == sorted(values) and values[0] < values[len(values) // 2] < values[-1]


def judge_counts(looks):
    """Judges `looks`, which has a Look after each eighth of the runs. Returns the accused Growths; [] if there are too few looks."""
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
        accused += growth(KMALLOC_FAMILY, moving) or reallocated(looks, {name: series(name, "live") for name in moving})
    return [one for one in accused if not OF_THE_ALLOCATOR.fullmatch(one.name)] or accused


def reallocated(looks, counts):
    """Returns [Growth] of an object that is reallocated larger and larger, and more and more rarely, such as an array of which the size doubles. It leaves
    a cache of kmalloc and comes into a larger one at the same look, at least twice. `counts`: {cache: number of live objects at each look}. Other objects
    of these caches may not come or go meanwhile. [] if there is no such object."""
    steps = {name: [(look, after - before) for look, (before, after) in enumerate(zip(values, values[1:]), 1) if after != before]
             for name, values in counts.items()}
    sizes = {name: int(name.partition("_")[2] or 1 << 14) for name in counts}

    def chain(name, left):
        """Returns the caches that an object goes through that has left the cache `name` at the look `left`; [] if that is not known."""
        for other, moves in steps.items():
            if sizes[other] <= sizes[name] or not moves or moves[0] != (left, 1):
                continue
            if len(moves) == 1:
                return [other]
            if len(moves) == 2 and moves[1][1] == -1 and (rest := chain(other, moves[1][0])):
                return [other, *rest]
        return []

    chains = [[name, *rest] for name, moves in steps.items() if len(moves) == 1 and moves[0][1] == -1 and (rest := chain(name, moves[0][0]))]
    longest = max(chains, key=len, default=[])
    if len(longest) < 3:
        return []
    first, last = looks[0], looks[-1]
    return [Growth(KMALLOC_FAMILY, 0, sizes[longest[-1]] - sizes[longest[0]], last.runs - first.runs, (last.time - first.time) / 100, len(looks), True,
                   " ".join(longest))]


def mark_by_time(accused, idle):
    """Sets by_time in each Growth of `accused` whose count also grows while the command does not run, at half of the growth's rate or faster. `idle`:
    looks between which the command did not run. Slower growth does not count, because a `sleep` runs before each of these looks and may leak, too."""
    while_idle = {growth.name: growth.rate for growth in judge_counts(idle)}
    for growth in accused:
        growth.by_time = 2 * while_idle.get(growth.name, 0) >= growth.rate


MOST_RUNS, MOST_SECONDS, RUNS_FOR_AN_OBJECT = 256, 40, 3


def runs_that_name(accused, repeat):
    """Returns the number of traced runs to make: at least `repeat`. The number is large enough, with a margin, that each leak in `accused` should
    leave two objects in the trace, or one object that is reallocated. The limit is MOST_RUNS, or `repeat` if that is more."""
    slowest = max((growth.runs / growth.objects for growth in accused if growth.can_be_traced and growth.objects > 0), default=1)
    # An object that is reallocated larger may leave a record only after as many runs.
    moving = max((growth.runs for growth in accused if growth.can_be_traced and growth.moves), default=0)
    return max(repeat, min(MOST_RUNS, max(round(2 * RUNS_FOR_AN_OBJECT * slowest), moving)) if accused else 0)


def seconds_that_name(accused):
    """Returns the time limit of the traced runs in seconds. If all leaks in `accused` grow by time, the limit is long enough, with a margin, that
    each should leave two objects in the trace. It is at most MOST_SECONDS."""
    named = [growth for growth in accused if growth.can_be_traced and growth.objects > 0]
    if not named or not all(growth.by_time for growth in named):
        return MOST_SECONDS
    return min(MOST_SECONDS, math.ceil(2 * RUNS_FOR_AN_OBJECT * max(growth.seconds / growth.objects for growth in named)))
