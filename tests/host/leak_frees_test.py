"""The part of scripts/leaktest that says who freed the other objects of an accused stack."""
from types import SimpleNamespace

import pytest

from leak_fakes import dump, group, source, told
from stele.leak_frees import lines_of
from stele.leak_report import Untraced, facts
from stele.leaks import Freed, groups_of, judge
from stele.tracedump import Record, Stack

CHANS = [("Cache::free+0x8", "kern/include/slab.h:90"), ("Chan::destroy+0x34", "kern/ns/chan.cc:50")]


def freed(objects, *functions):
    return Freed(objects, [[(f"{function}+0x1{i}", f"kern/ns/a.cc:{i}")] for i, function in enumerate(functions, 1)])


def accused(*frees, missing=False, marks=(0, 1)):
    one = group(list(marks))
    one.frees, one.frees_missing = list(frees), missing
    return one


def test_who_freed_the_others():
    assert lines_of(accused(freed(5, "close", "walk"), freed(2, "open"))) == [
        "    of 9 objects of this stack, 7 were freed, by:",
        "        5  close  kern/ns/a.cc:1 < walk  kern/ns/a.cc:2",
        "        2  open  kern/ns/a.cc:1",
        "    and the 2 that are left were not"]
    assert lines_of(accused(freed(1, "close"), marks=[0])) == [
        "    of 2 objects of this stack, 1 was freed, by:", "        1  close  kern/ns/a.cc:1", "    and the one that is left was not"]


def test_long_lists_are_cut():
    lines = lines_of(accused(freed(9, "a", "b", "c", "d", "e"), *(freed(1, "f") for _ in range(4))))
    assert lines[1].endswith("< d  kern/ns/a.cc:4 …")
    assert lines[4:6] == ["        2  2 more stacks", "    and the 2 that are left were not"]
    assert "        1  1 more stack" in lines_of(accused(*(freed(1, "f") for _ in range(4))))


def test_the_allocators_frames_are_left_out():
    inlined = Freed(3, [[("kmem_cache_free+0x8", "kern/src/slab.c:7")], CHANS, [("RefCounted::unref", "kern/core/ref.h:91"), ("walk+0x5", "kern/ns/walk.cc:3")]])
    assert lines_of(accused(inlined))[1] == "        3  Chan::destroy  kern/ns/chan.cc:50 < walk  kern/ns/walk.cc:3"
    nothing_else = Freed(3, [[("kmem_cache_free+0x8", "kern/src/slab.c:7")]])
    assert lines_of(accused(nothing_else))[1] == "        3  kmem_cache_free  kern/src/slab.c:7"


def test_nobody():
    assert lines_of(accused()) == ["    none of this stack's objects was freed by anybody"]


def test_uncounted_frees_make_the_numbers_lower_bounds():
    assert lines_of(accused(freed(5, "close"), missing=True))[0] == "    of at least 7 objects of this stack, at least 5 were freed, by:"
    assert "by anybody" not in lines_of(accused(missing=True))[0]


def test_without_counts_nothing_is_said():
    assert lines_of(group([0, 1])) == []
    assert "freed" not in told(judge([group([0, 1])], 5))


def test_the_report_says_it_after_the_stack():
    verdict = judge([accused(freed(5, "close"))], 5)
    text = told(verdict)
    assert text.index("debug_alloc_write+0x12  kern/a.cc:9\n    of 7 objects") < text.index("    marks 0-1")
    [leak] = facts(verdict, 5, Untraced())["leaks"]
    assert (leak["freed"], leak["frees_missing"]) == (5, False)
    assert leak["freed_by"] == [{"objects": 5, "stack": ["close"], "lines": ["kern/ns/a.cc:1"]}]
    [leak] = facts(judge([group([0, 1])], 5), 5, Untraced())["leaks"]
    assert "freed" not in leak


@pytest.mark.parametrize("uncounted", [0, 3])
def test_counts_of_a_dump(uncounted):
    """Caches of one name count as one. A stack without frees was freed by nobody; a trace without counts says nothing."""
    def traced(name, frees, options):
        one = source(name, options=options)
        one.records, one.frees = [Record(0x1000, 64, 0, stack, 1) for stack in (7, 8, 0)], frees
        return one

    whole = dump(traced("pipe", {7: {9: 2}}, {"frees": 1}), traced("pipe.2", {7: {9: 1, 8: 4}}, {"frees": 1}), traced("chan", {}, {}))
    whole.frees_uncounted = uncounted
    whole.contexts, whole.context_name = {}, str
    whole.stacks = {number: Stack(number, "kernel", (number,)) for number in (7, 8, 9)}
    kernel = SimpleNamespace(look_up=lambda frames: {frame: [(f"f{frame}+0x1", "kern/a.cc:1")] for frame in frames}, elf=None)
    found = {(one.name, one.stack): one for one in groups_of(whole, kernel)}
    assert [(one.objects, one.frames) for one in found["pipe", 7].frees] == [(4, [[("f8+0x1", "kern/a.cc:1")]]), (3, [[("f9+0x1", "kern/a.cc:1")]])]
    assert found["pipe", 7].frees_missing == bool(uncounted)
    assert (found["pipe", 8].frees, found["pipe", 0].frees, found["chan", 7].frees) == ([], None, None)
