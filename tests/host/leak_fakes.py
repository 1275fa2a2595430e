"""Shared by the tests of scripts/leaktest: fake groups of objects, dumps, looks and growths, and the report of a verdict on them."""
from types import SimpleNamespace

from stele.leak_command import Run
from stele.leak_counts import Count, Growth, Look
from stele.leak_report import Untraced, report
from stele.leaks import Group
from stele.tracedump import COUNTERS, Record, Source


def group(marks, name="debug_64", function="leak_at_depth", offset=0x34, kind="cache", time=0, size=64):
    frames = [[(f"{function}+{offset:#x}", "kern/a.cc:2")], [("debug_alloc_write+0x12", "kern/a.cc:9")]]
    return Group(name, kind, offset, frames, [Record(0x1000, size, time, offset, 1, mark=mark) for mark in marks], ["pid 12 sh"])


def source(name="debug_64", mark=4, options=(), **counters):
    return Source(name, "cache", "stopped", False, 64, {"depth": 32, **dict(options)}, mark, 0, dict.fromkeys(COUNTERS, 0) | counters)


def dump(*sources, commands=0, unnamed=(0, 0)):
    return SimpleNamespace(sources=list(sources), commands=commands, stacks_unnamed=unnamed[0], contexts_unnamed=unnamed[1])


def look(runs, time=None, at_rest=True, **live):
    """Returns a look: the counts of all caches after `runs` runs. `live` has one value for each
    cache. The value is the number of live objects of 64 bytes, or (number of objects, bytes)."""
    pairs = {name.replace("_0", ".0"): value if isinstance(value, tuple) else (value, 64 * value) for name, value in live.items()}
    return Look(runs, runs if time is None else time, at_rest, {name: Count(size, objects, name not in ("trace", "kmem_slab"), True)
                                                               for name, (objects, size) in pairs.items()})


def series(*values, name="chan", **others):
    """Returns one look for each of `values`, after 16, 32, 48 … runs. A value is the number of live
    objects of the cache `name` at that look. `others` maps the name of each further cache to a list
    of such values, one for each look."""
    return [look(16 * (i + 1), **{name: value}, **{other: values[i] for other, values in others.items()}) for i, value in enumerate(values)]


def growth(name="debug_64", objects=24, size=1536, runs=96, traceable=True, looks=7):
    return Growth(name, objects, size, runs, 5.0, looks, traceable)


def told(verdict, untraced=Untraced(128, 128, 8, 7.25)):
    """Returns the report of the verdict."""
    return report(verdict, dump(source()), "some command", [Run(0, 0.1)] * 6, 5, [], SimpleNamespace(look_up=lambda stacks: {}), untraced)
