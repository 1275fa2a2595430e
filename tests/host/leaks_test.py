"""How the leak test judges the objects that its traced and untraced runs leave, and what it reports."""
import json
import subprocess
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from checkout import with_guest
from guest import leaktest, text
from leak_fakes import dump, group, growth, look, series, source, told
from stele.leak_command import Run
from stele.leak_counts import (MOST_RUNS, MOST_SECONDS, Count, family, grown, judge_counts, mark_by_time, parse_counts, runs_that_name,
                               seconds_that_name)
from stele.leak_report import Result, Untraced, as_json, as_junit, facts, failure_report, list_report, memory_report, ranges, report
from stele.leaks import CLEAN, LEAKED, UNKNOWN, Group, UserStack, doubts_about, judge, without_allocator
from stele.references import NOWHERE, parse_references, with_names


def doubts(after, before=None, counts="", counts_after=""):
    return doubts_about(before or dump(source(), commands=7), after, 5, 5, parse_counts(counts), parse_counts(counts_after))


def status(*groups, repeat=5):
    return judge(groups, repeat).status


def test_alive_in_all_generations():
    assert status(group(range(5))) == LEAKED


def test_two_generations_are_enough():
    for marks in ((0, 1), (0, 4), (2, 2, 3)):
        assert status(group(marks)) == LEAKED, marks
        assert status(group(marks), repeat=20) == LEAKED, marks


def test_many_objects_of_one_generation_are_no_leak():
    verdict = judge([group([0] * 1000)], 5)
    assert (verdict.status, len(verdict.others)) == (CLEAN, 1)


def test_one_run():
    assert status(group([0]), repeat=1) == LEAKED


def test_clean():
    assert status() == CLEAN


def test_a_function_is_accused_whatever_leads_to_it():
    """A function allocates objects of one cache, with another stack in each run. The leak test
    accuses the function if objects from more than half of the runs are alive. Objects from three
    runs are always enough."""
    def several(marks, **changes):
        return [group([mark], offset=0x10 + 8 * mark, **changes) for mark in marks]

    verdict = judge(several(range(5)), 5)
    assert (verdict.status, [len(together) for together in verdict.by_function], verdict.others) == (LEAKED, [5], [])
    assert status(*several([0, 2, 4])) == LEAKED
    assert status(*several([0, 4])) == CLEAN
    assert status(*several([0, 1]), repeat=2) == LEAKED
    assert status(*several([0, 1]), *several([2, 3], name="chan"), *several([4], function="other")) == CLEAN
    unknown = [Group("a", "cache", 0, [], group([mark]).records) for mark in range(5)]
    assert status(*unknown) == CLEAN  # without a recorded stack, no function can be accused
    assert [len(together) for together in judge([*several(range(5)), group([0, 1], function="other")], 5).by_function] == [5]


def test_doubts_are_not_clean():
    assert judge([], 5, ["of"]).status == UNKNOWN
    assert judge([group([0, 1])], 5, ["of"]).status == LEAKED


def test_nothing_to_doubt():
    assert doubts(dump(source(), commands=12)) == []


@pytest.mark.parametrize("counters, doubt", [
    (dict(dropped=1, seen=1), "debug_64: dropped 1"), (dict(filtered=1, seen=1), "debug_64: filtered 1"), (dict(cleared=1, seen=1, recorded=1), "debug_64: cleared 1"),
    (dict(stacks_lost=1), "debug_64: stacks_lost 1"), (dict(contexts_lost=2), "debug_64: contexts_lost 2"),
    (dict(seen=1), "debug_64: does not hold: seen = recorded + dropped + filtered"),
    (dict(mark=3), "debug_64: has mark 3 after 5 runs"), (dict(options={"pid": 3}), "debug_64: was traced with pid=3"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_lost_is_doubted(counters, doubt):
    assert doubts(dump(source(**counters), commands=12)) == [doubt]


def test_meddling_is_doubted():
    assert doubts(dump(source(), commands=14)) == ["another process gave 2 of the tracer's commands start, stop, reset and mark"]
    assert doubts(dump(source(), commands=3), dump(source(), commands=(1 << 32) - 2)) == []
    assert doubts(dump(source(), commands=12), dump(source(), source("chan"), commands=7)) == ["chan: its trace has gone"]
    assert doubts(dump(commands=12), dump(commands=7)) == ["nothing was traced"]


def test_what_has_no_name_is_doubted():
    assert doubts(dump(source(), commands=12, unnamed=(3, 0))) == ["the stacks of 3 records could not be named for lack of memory"]
    assert doubts(dump(source(), commands=12, unnamed=(0, 4))) == ["the contexts of 4 records could not be named for lack of memory"]


COUNTS = """NAME T OBJSIZE TOTAL ALLOCATED LIVE ALLOCS FREES TRACED
base                               A     4096     525484032             0         0            0            0 off
  page                             A     4096       1048576        663552       144          220           76 off
    page_4096                      S     4096        655360        618496       151          227           76 never
    debug_64                       S       64             0             0         0            0            0 on
kernel_virtual                     A     4096 1099509530624        159744         9            9            0 off
"""
MORE = "    NAME                            S       64          4096          {size}        {live}            9            0 {traced}\n"


def test_what_was_made_after_the_start_is_doubted():
    def after(**changes):
        return doubts(dump(source(), commands=12), counts=COUNTS, counts_after=COUNTS + MORE.format(**dict(size=64, live=1, traced="off") | changes))

    assert after() == ["NAME: was made after the start, and is not traced"]
    assert after(traced="never") == []


def test_what_grew():
    before, after = parse_counts(COUNTS), parse_counts(COUNTS.replace("663552       144", "999999       200").replace("618496", "700000").replace("159744", "200000")
                                                       + MORE.format(size=640000, live=10000, traced="on"))
    assert grown(before, after) == [(640000, 10000, "NAME"), (336447, 56, "page")]
    told = memory_report("some command", before, after)
    assert told.startswith("UNKNOWN\n")
    assert "    640000 bytes in 10000 allocations of NAME\n    336447 bytes in 56 allocations of page\n" in told


def test_causes_come_first():
    """The report begins with objects of typed caches; kmalloc follows, then pages. Within each of
    these three, older groups come first. Of groups of the same age, the one with fewer objects comes
    first."""
    ordered = [group([0, 1], "process", time=5, size=2000), group([0, 1], "fd_table", time=6, size=3000), group([0, 0, 1, 1], "chan", time=6, size=88),
               group([0, 1], "kmalloc_16", time=5), group([0, 1], "page", kind="arena", time=1, size=1 << 20)]
    for shuffled in (ordered, ordered[::-1], ordered[2:] + ordered[:2]):
        assert judge(shuffled, 5).by_stack == ordered


def test_the_allocator_s_inlined_functions_are_cut():
    make, chan, walk = ("ObjectCache::make", "kern/include/kmalloc.h:44"), ("chan_make", "kern/ns/chan.cc:3"), ("walk+0x8", "kern/ns/path.cc:4")
    assert without_allocator([[make, chan, walk], [make, walk]]) == [[chan, walk], [make, walk]]
    assert without_allocator([[make]]) == [[make]]
    assert without_allocator([]) == []


def test_ranges():
    assert [ranges(numbers) for numbers in ({0}, {0, 1, 2}, {3, 0, 1})] == ["0", "0-2", "0-1,3"]


def test_report():
    class Programs:
        def look_up(self, stacks):
            return {("0a1b", 0x401001): [("inner", "user/libc/a.h:1"), ("write", "user/libc/file.c:2")]}

    leaked = group([0, 0, 1, 2, 3, 4])
    leaked.frames[0].insert(0, ("inner", "a.h:1"))
    leaked.user_stacks = [UserStack(["pid 12 sh", "pid 13 sh"], "0a1b", "/bin/sh", (0x401001, 0x402000), 640, 10)]
    by_function = [group([mark], name="chan", function="walk", offset=16 + mark) for mark in range(4)]
    verdict = judge([group([3, 3], function="once"), leaked, *by_function], 5, ["all is doubtful"])
    told = report(verdict, dump(source(seen=9)), "some command", [Run(0, 0.1), Run(3, 0.1), Run(3, 0.1)], 5, ["sleep", "cat", "sleep"], Programs(), Untraced(128, 128, 8, 7.25))
    assert "leak test of: some command\n" in told
    assert "runs: 1 to warm up, 128 untraced in 7.2 s, 5 traced; exit statuses: 0 (1 run), 3 (2 runs)\n" in told
    assert "left running, and killed: sleep (2 times), cat (1 times)\n" in told
    assert "LEAKED: 384 bytes from 1 stacks, each alive in at least 2 of 5 runs\n" in told
    assert ("384 bytes in 6 allocations of debug_64 from stack\n    inner (inlined)  a.h:1\n    leak_at_depth+0x34  kern/a.cc:2\n"
            "    debug_alloc_write+0x12  kern/a.cc:9\n    marks 0-4, contexts pid 12 sh\n"
            "    user stack of pid 12 sh and 1 more, 640 bytes in 10 allocations\n"
            "        inner (inlined)  user/libc/a.h:1\n        write  user/libc/file.c:2\n        0x402000 [/bin/sh]\n") in told
    assert "LEAKED: 256 bytes of chan by walk, from 4 stacks, alive in 4 of 5 runs\n" in told
    assert "not repeated (not counted): 1 stacks" in told
    assert "what is not known:\n    all is doubtful\n" in told
    assert told.startswith("LEAK\nleak test of: some command\n")


def test_what_rises_in_both_halves_is_accused():
    [growth] = judge_counts(series(5, 8, 10, 12, 14, 16, 18, 20))
    assert (growth.name, growth.objects, growth.bytes, growth.runs, growth.by_time) == ("chan", 12, 768, 96, False)
    assert judge_counts(series(0, 0, 0, 0, 1, 1, 1, 2))  # a leak in batches


@pytest.mark.parametrize("values", [
    (5, 5, 5, 5, 5, 5, 5, 5), (0, 9, 9, 9, 9, 9, 9, 9), (0, 1, 2, 3, 4, 4, 4, 4), (0, 1, 1, 1, 1, 2, 2, 3), (1, 2, 1, 2, 1, 2, 1, 2), (9, 1, 3, 2, 5, 6, 7, 8),
    (9, 8, 7, 6, 5, 4, 3, 2), (1, 2, 3), (1, 2, 3, 4, 5, 6, 7, 1),
], ids=["still", "first eighth", "first half", "second half", "sways", "falls back", "falls", "too few looks", "all back at the end"])
def test_what_does_not_is_not(values):
    assert judge_counts(series(*values)) == []


def test_few_looks_are_judged_too():
    """A command that takes long allows only few looks."""
    assert [growth.objects for growth in judge_counts(series(0, 1, 2, 3))] == [2]
    assert judge_counts(series(0, 1, 2, 2)) == judge_counts(series(0, 1, 2)) == []


def test_growth_by_reallocation():
    """One object is reallocated again and again: it moves from one kmalloc cache to the next larger
    one, and then to the page arena. If its size stays the same in the second half of the looks, no
    growth is found."""
    sizes = [2048, 2048, 2048, 4096, 4096, 8192, 8192, 16384]
    names = ["kmalloc_2048", "kmalloc_4096", "kmalloc_8192", "page"]
    looks = [look(16 * i, **{name: (int(name.endswith(str(size)) or (name == "page" and size > 8192)), size * (name.endswith(str(size)) or (name == "page" and size > 8192)))
                             for name in names}) for i, size in enumerate(sizes, 1)]
    [growth] = judge_counts(looks)
    assert (growth.name, growth.objects, growth.bytes) == ("kmalloc", 0, 14336)
    assert growth.has("kmalloc_4096") and growth.has("page") and not growth.has("chan") and not growth.has("page_4096")
    assert judge_counts(looks[:4] + 4 * looks[3:4]) == []


def test_bytes_of_an_arena_that_one_object_holds():
    [growth] = judge_counts([look(16 * i, page=(1, 4096 * i)) for i in range(1, 9)])
    assert (growth.name, growth.objects, growth.bytes) == ("page", 0, 24576)
    assert growth.has("kmalloc_8192")  # before the object became too large, it may have been in one of kmalloc's caches


def test_what_can_never_be_traced_is_accused():
    [growth] = judge_counts(series(0, 1, 2, 3, 4, 5, 6, 7, name="trace"))
    assert (growth.name, growth.can_be_traced) == ("trace", False)


def test_what_serves_the_allocator_follows_its_callers():
    rising = (0, 1, 2, 3, 4, 5, 6, 7)
    assert [growth.name for growth in judge_counts(series(*rising, kmem_slab=rising))] == ["chan"]
    assert [growth.name for growth in judge_counts(series(*8 * [3], kmem_slab=rising))] == ["kmem_slab"]
    # The arena "debug" has the lists of #debug/alloc. The leak test treats this arena like one of the allocator's own arenas: it accuses the arena
    # only if it accuses nothing else.
    assert [growth.name for growth in judge_counts(series(*rising, debug=rising))] == ["chan"]
    assert [growth.name for growth in judge_counts(series(*8 * [3], debug=rising))] == ["debug"]
    assert judge_counts(series(*8 * [3], page_4096=rising)) == []  # the counts of the arena "page" include these objects


def test_caches_that_each_run_makes_are_judged_together():
    """Each look finds one more cache with three objects. From the fifth look on, the first cache is
    gone."""
    looks = [look(16 * i, **{"fresh" if n == 1 else f"fresh.{n}": 3 for n in range(1 + (i > 4), i + 1)}) for i in range(1, 9)]
    [growth] = judge_counts(looks)
    assert (growth.name, growth.objects, growth.has("fresh")) == ("fresh", 15, True)
    # If each look finds a new cache instead of the previous one, nothing grows. family() removes the
    # number from the name of a cache. It keeps the number in kmem_magazine.16, which is a size.
    assert judge_counts([look(16 * i, **{f"fresh.{i}": 3}) for i in range(1, 9)]) == []
    assert [family(name) for name in ("fresh", "fresh.12", "kmem_magazine.16", "kmalloc_64", "a.2.3", ".5")] == [
        "fresh", "fresh", "kmem_magazine.16", "kmalloc_64", "a.2", ".5"]


def test_a_cache_made_meanwhile():
    looks = series(*8 * [3])
    for i, one in enumerate(looks[3:]):
        one.counts["made"] = Count(64 * (i + 1), i + 1, True, True)
    assert [growth.name for growth in judge_counts(looks)] == ["made"]


def test_what_grows_by_time():
    both = judge_counts(series(*range(8), tmp_node=range(8)))
    mark_by_time(both, series(*range(8), tmp_node=8 * [0]))
    assert [(growth.name, growth.by_time) for growth in both] == [("chan", True), ("tmp_node", False)]
    [fast] = judge_counts(series(*range(0, 128, 16)))
    mark_by_time([fast], series(*range(8)))  # while processes only wait, the cache grows slowly
    assert not fast.by_time


def test_traced_runs_until_two_objects_are_there():
    assert runs_that_name([], 5) == 5
    assert runs_that_name([growth(objects=96)], 5) == 6
    assert runs_that_name([growth(objects=24), growth("chan", objects=480)], 5) == 24
    assert runs_that_name([growth(objects=1)], 5) == MOST_RUNS
    assert runs_that_name([growth(objects=0), growth("trace", 1, traceable=False)], 5) == 6
    assert runs_that_name([growth(objects=96)], 20) == 20


def test_traced_seconds_until_two_objects_are_there():
    """The first cache grows by 24 objects in 5 s, the second cache by only one object in 5 s."""
    often, seldom = growth(objects=24), growth("chan", objects=1)
    assert seconds_that_name([often]) == seconds_that_name([]) == MOST_SECONDS
    often.by_time = seldom.by_time = True
    assert (seconds_that_name([often]), seconds_that_name([often, seldom])) == (2, 30)
    assert seconds_that_name([often, growth("task")]) == MOST_SECONDS


def test_counts_are_named_by_what_is_alive():
    """Two live objects with the same stack explain a growth, whether they are from the same run or
    not. One live object is enough to explain growth by reallocation."""
    def accusation(*groups, **changes):
        verdict = judge(groups, 5, growths=[growth(**changes)])
        assert verdict.status == LEAKED
        return verdict.by_counts[0], verdict

    once, verdict = accusation(group([3, 3]), group([2], "chan"))
    assert (once.named, [one.name for one in once.groups], [one.name for one in verdict.others], verdict.unnamed) == (True, ["debug_64"], ["chan"], [])
    one, verdict = accusation(group([3]))
    assert (one.named, verdict.unnamed, verdict.others) == (False, [one.growth], [])
    assert accusation(group([3], "kmalloc_4096"), objects=0, name="kmalloc")[0].named
    never, verdict = accusation(name="trace", traceable=False)
    assert (never.named, verdict.unnamed) == (False, [])


def test_few_looks_need_a_stack():
    """A count may rise by chance in three looks."""
    few = growth(looks=3)
    verdict = judge([group([3])], 5, growths=[few])
    assert (verdict.status, verdict.by_counts, verdict.unnamed, len(verdict.others)) == (UNKNOWN, [], [few], 1)
    assert verdict.doubts == ["24 objects, 1536 bytes of debug_64 in 96 untraced runs (3 looks): too few looks to accuse it without a stack"]
    named = judge([group([3, 3])], 5, growths=[few])
    assert (named.status, len(named.by_counts), named.doubts) == (LEAKED, 1, [])
    assert judge([], 5, growths=[growth(looks=4)]).status == LEAKED


def test_report_by_counts():
    slow, clock = growth(), growth("chan", 3, 300)
    clock.by_time = True
    by_stack = group([0, 1], "process")
    report_text = told(judge([group([3, 3]), by_stack], 5, growths=[slow, clock, growth("process", 96, 9600), growth("trace", 0, 4096, traceable=False)]))
    assert "LEAKED (by counts): 24 objects, 1536 bytes of debug_64 in 96 untraced runs (7 looks)\n\n128 bytes in 2 allocations of debug_64 from stack\n" in report_text
    assert "of chan in 96 untraced runs (7 looks), and grows as well while nothing runs: by time (5.0 s)\n    the traced runs left none of it" in report_text
    assert "of process in 96 untraced runs (7 looks)\n    from stacks above\n" in report_text
    assert "LEAKED (by counts): 4096 bytes of trace in 96 untraced runs (7 looks)\n    it can never be traced" in report_text
    assert report_text.startswith("LEAK\n")


@pytest.mark.parametrize("untraced, line", [
    (Untraced(), "none untraced (quick: judged by the trace alone, not by counts)"),
    (Untraced(128, 74, 8, 20.5), "74 untraced in 20.5 s (the time was up: 128 were wanted)"),
    (Untraced(128, 20, 5, 3, True), "20 untraced in 3.0 s (half of memory was used up then)"),
    (Untraced(128, 2, 2, 3, True), "2 untraced in 3.0 s (half of memory was used up then; too few to judge by counts)"),
], ids=["quick", "time", "memory", "too few"])
def test_report_says_what_was_not_run(untraced, line):
    assert f"runs: 1 to warm up, {line}, 5 traced;" in told(judge([], 5), untraced)


# References.


def references(marks, objects, name="ref.chan", function="fd_get", offset=0x7):
    taken = group(marks, name=name, function=function, offset=offset, kind="references", size=0)
    taken.records = [record._replace(object=at) for record, at in zip(taken.records, objects)]
    return taken


def test_references_stand_under_the_objects_that_they_keep():
    leaked = group([0, 1, 2], name="chan")
    leaked.records = [record._replace(object=at) for record, at in zip(leaked.records, (0x10, 0x20, 0x30))]
    taken = references([0, 1, 2, 2], [0x10, 0x20, 0x30, 0x40])
    verdict = judge([taken, leaked], 5)
    assert verdict.by_stack == [leaked] and [len(kept.records) for kept in leaked.references] == [3]
    assert [[record.object for record in other.records] for other in verdict.others] == [[0x40]]
    report_text = told(verdict)
    assert ("192 bytes in 3 allocations of chan from stack\n    leak_at_depth+0x34  kern/a.cc:2\n    debug_alloc_write+0x12  kern/a.cc:9\n"
            "    kept by 3 references that were not put, taken from stack\n        fd_get+0x7  kern/a.cc:2\n") in report_text


def test_references_have_places():
    leaked = group([0, 1], name="chan")
    leaked.records = [record._replace(object=at) for record, at in zip(leaked.records, (0x10, 0x20))]
    taken = references([0, 1, 1], [0x10, 0x20, 0x30])
    taken.lying = {0x10: [f"at +{place:#x} of fd_table 0x80" for place in (8, 16, 24, 32, 40)], 0x20: [NOWHERE, NOWHERE], 0x30: ["on no stack"]}
    verdict = judge([taken, leaked], 5)
    assert ("        fd_get+0x7  kern/a.cc:2\n        debug_alloc_write+0x12  kern/a.cc:9\n"
            "        reference to 0x10 at +0x8 of fd_table 0x80\n        reference to 0x10 at +0x10 of fd_table 0x80\n"
            "        reference to 0x10 at +0x18 of fd_table 0x80\n        reference to 0x10 at +0x20 of fd_table 0x80\n"
            "        … 1 references more\n        2 references nowhere found\n    marks 0-1,") in told(verdict)
    assert facts(verdict, 5, Untraced())["leaks"][0]["kept_by"][0]["places"] == [*taken.lying[0x10], NOWHERE, NOWHERE]


def test_places_are_read():
    text_read = ("references 4 nowhere 1\nref.chan 0xffff80000065b3c0 stack 7 at +0x18 of vm_region 0xffff8000006d6180\n"
                 "ref.chan 0xffff80000065b3c0 stack 7 nowhere found\nref.chan 0xffff80000065b3c0 stack 9 on the kernel stack of pid 6 sh\n"
                 "ref.tmp_node 0xffff80000065b3c0 stack 7 in static data at 0xffffffff80201018\n")
    at = 0xffff80000065b3c0
    places = parse_references(text_read)
    assert places == {("ref.chan", 7, at): ["at +0x18 of vm_region 0xffff8000006d6180", NOWHERE], ("ref.chan", 9, at): ["on the kernel stack of pid 6 sh"],
                      ("ref.tmp_node", 7, at): ["in static data at 0xffffffff80201018"]}
    for wrong in ("", "references 3 nowhere 1\n", text_read.rpartition("ref.tmp_node")[0], text_read + "ref.chan\n", text_read.replace("stack 9", "")):
        with pytest.raises(ValueError, match="not what #mem/references says"):
            parse_references(wrong)


def test_places_in_static_data_have_names(monkeypatch):
    names = "ffffffff80100000 T main\nffffffff80201000 b held\nffffffff80202000 D next\n"
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: SimpleNamespace(stdout=names))
    places = {1: ["in static data at 0xffffffff80201018", "nowhere found", "in static data at 0xffffffff80100000"]}
    assert with_names(places, "stele.elf") == {1: ["in static data at 0xffffffff80201018 (held+0x18)", *places[1][1:]]}


def test_references_of_another_kind_do_not_keep_an_object():
    leaked = group([0, 1], name="chan")
    verdict = judge([leaked, references([0, 1], [0x1000, 0x1000], name="ref.tmp_node")], 5)
    assert not leaked.references and [one.name for one in verdict.by_stack] == ["chan", "ref.tmp_node"]


def test_references_to_what_stays_are_a_leak():
    verdict = judge([references([0, 1, 2], [0x10, 0x10, 0x10])], 5, growths=[growth("ref.chan", 96, 0)])
    assert verdict.status == LEAKED
    report_text = told(verdict)
    assert "LEAKED: 3 references from 1 stacks" in report_text and "3 references to objects of chan from stack\n" in report_text
    assert "LEAKED (by counts): 96 references to objects of chan in 96 untraced runs (7 looks)\n    from stacks above\n" in report_text


def test_references_in_the_place_of_others_are_none():
    taken = references([0], [0x10])
    for rise, expected in ((0, CLEAN), (1, LEAKED)):
        assert judge([taken], 1, rises={"ref.chan": rise}).status == expected


def test_a_reference_that_grows_with_its_object_is_told_once():
    verdict = judge([], 5, growths=[growth("chan", 96), growth("ref.chan", 96, 0), growth("ref.tmp_node", 96, 0)])
    assert [one.growth.name for one in verdict.by_counts] == ["chan", "ref.tmp_node"]


# Reports in formats that programs read, and the report of a list of commands.

LEAK_TEXT = "LEAK\n…\nLEAKED: a & b\n"
RESULTS = [Result("true", CLEAN, "CLEAN\n…\n", seconds=2.25), Result("leak < & \x01 \udcff", LEAKED, LEAK_TEXT),
           Result("long", UNKNOWN, failure_report("long", "the guest ended with status 124"), "the guest ended with status 124"),
           Result("typo", UNKNOWN, told(judge([], 5, ["the command was not found (status 127)"])))]


def test_junit():
    suite = ElementTree.fromstring(as_junit(RESULTS))
    assert [suite.get(key) for key in ("tests", "failures", "errors")] == ["4", "1", "2"]
    clean, leak, unknown, typo = suite
    assert (clean.get("name"), clean.get("time"), list(clean)) == ("true", "2.2", [])
    assert (leak.get("name"), leak[0].tag, leak[0].get("message"), leak[0].text) == ("leak < & ? ?", "failure", "LEAKED: a & b", LEAK_TEXT)
    assert (unknown[0].tag, unknown[0].get("message")) == ("error", "the guest ended with status 124")
    assert (typo[0].tag, typo[0].get("message")) == ("error", "the command was not found (status 127)")


def test_json():
    assert [(one["command"], one["status"], one.get("why")) for one in json.loads(as_json(RESULTS))["commands"]] == [
        ("true", "clean", None), ("leak < & ? ?", "leak", None), ("long", "unknown", "the guest ended with status 124"), ("typo", "unknown", None)]


def test_list():
    lines = list_report(LEAKED, RESULTS).splitlines()
    assert lines[:7] == ["LEAK", "1 clean, 1 leak, 2 unknown", "", "CLEAN    true", "LEAK     leak < & \x01 \udcff", "UNKNOWN  long", "UNKNOWN  typo"]
    assert "LEAKED: a & b" in lines and "    the guest ended with status 124" in lines and lines.count("CLEAN") == 0


@pytest.mark.parametrize("options, content, why", [
    (["--list", "FILE"], "# nothing\n\n", "FILE: no command in it"), (["--list", "/none"], "", "/none: No such file or directory"),
    (["--suppressions", "FILE", "true"], "walk\n", 'FILE: line 1: "walk" has no reason'), (["--baseline", "FILE", "true"], "what", "FILE: not a report"),
], ids=["empty list", "no list", "suppressions", "baseline"])
def test_options_files(tmp_path, options, content, why):
    file = tmp_path / "file"
    file.write_text(content)
    *options, last = [word.replace("FILE", str(file)) for word in options]
    result = leaktest(last, *options)
    assert (result.status, result.stdout.splitlines()[0]) == (2, "UNKNOWN")
    assert why.replace("FILE", str(file)) in result.stdout and why.replace("FILE", str(file)) in result.stderr


# Failures of the leak test itself, most of them with a fake scripts/guest.


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Returns a function that runs leaktest in a copy of the checkout. The copy has a fake
    scripts/guest, which prints `output` and ends with `status`."""
    def run(output=b"", status=0, errors=b"", command="true", options=()):
        (tmp_path / "out").write_bytes(output)
        (tmp_path / "err").write_bytes(errors)
        tool = with_guest(tmp_path, "leaktest", f"cat {tmp_path}/err >&2; cat {tmp_path}/out; exit {status}")
        run = subprocess.run(["python3", tool, "--report", str(tmp_path / "report"), *options, command], capture_output=True, check=False)
        return run.returncode, run.stdout, text(run.stderr), (tmp_path / "report").read_bytes()
    run.folder = tmp_path
    return run


@pytest.mark.parametrize("output, status, why", [
    (b"", 0, "the guest's output is incomplete"), (b"", 3, "the guest ended with status 3"),
    (b"leaktest pass\nleaktest dump\n\x89STELE\r\n", 0, "not a trace dump"), (b"what\n", 0, "unexpected output: b'what'"),
    (b"leaktest pass\nleaktest what\n", 0, "unexpected output: b'leaktest what'"),
    (b"leaktest pass\nleaktest run 0\n", 0, "not enough values to unpack (expected 2, got 1)"),
], ids=["nothing", "failed", "cut", "strange", "unknown", "run"])
def test_a_failure_of_its_own_is_one_line_and_2(played, output, status, why):
    for options in ([], ["--quick"]):
        report_text = f"UNKNOWN\nleak test of: true\nwhat is not known:\n    {why}\n".encode()
        assert played(output, status, options=options) == (2, report_text, f"leaktest: {why}\n", report_text)
    result = json.loads((played.folder / "report.json").read_text())["commands"][0]
    assert (result["status"], result["why"]) == ("unknown", why)


def test_a_command_longer_than_an_argument():
    result = leaktest("true " + "x" * 131000)
    assert (result.status, result.stdout[:8], result.stderr) == (2, "UNKNOWN\n", "leaktest: the command is longer than an argument may be\n")


def test_memory_that_runs_out_has_a_report(played):
    output = f"leaktest pass\nleaktest counts\n{COUNTS}leaktest end\nleaktest counts\n{COUNTS}{MORE.format(size=640000, live=10000, traced='on')}leaktest end\n".encode()
    status, told, _, written = played(output, 137, b"[    1.2] pid 5 sh: out of memory at 0x401000\n", command=b"true \xff")
    assert (status, told) == (2, written)
    assert told.startswith(b"UNKNOWN\nleak test of: true \xff\nwhat is not known:\n    memory ran out, so nothing can be judged\n\n")
    assert b"    640000 bytes in 10000 allocations of NAME\n" in told
