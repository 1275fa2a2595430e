"""The part of scripts/leaktest that says what keeps objects: the comparison of two memories, and the report."""
import json
from types import SimpleNamespace

import pytest

from leak_fakes import dump, group, series, told
from stele.leak_command import Run
from stele.leak_counts import judge_counts, runs_that_name
from stele.leak_kept import NotKnown, compared, groups_to_ask, half_of, lines_of
from stele.leak_report import Untraced, facts
from stele.leaks import judge
from stele.report import leak_files
from stele.report.from_leaktest import read
from stele.report.profile import Amount, Frame, Key, Profile


def keeper(entries, name="visits", objects=None, size=24, **others):
    """Returns what debugger/kept.py says of a keeper."""
    count = entries if objects is None else objects
    return {"name": name, "place": "kern/a.cc:7", "kind": "List", "holders": 0, "objects": count, "entries": entries, "entry": "Visit", "entry_size": size,
            "bytes": count * size, "largest": size, "stack": [0x10, 0x20], "stored": 0, "path": ["visits.head_.next", "Visit"], **others}


def found(before, after, **options):
    return [str(kept) for kept, _ in compared(before, after, 5, **options)]


def test_a_field_that_gains_entries_in_both_halves():
    assert found([keeper(5)], [keeper(10)]) == ["visits (kern/a.cc:7), a List: +1 entry a run, of Visit (24 bytes)"]
    assert found([keeper(10)], [keeper(20)]) == ["visits (kern/a.cc:7), a List: +2 entries a run, of Visit (24 bytes)"]
    assert found([keeper(1)], [keeper(2)]) == ["visits (kern/a.cc:7), a List: +1 entry in 5 runs, of Visit (24 bytes)"]
    assert found([keeper(3)], [keeper(10)]) == ["visits (kern/a.cc:7), a List: +7 entries in 5 runs, of Visit (24 bytes)"]


@pytest.mark.parametrize("kind, place, holders, text", [
    ("pointer", "", 10, "visits, a field of 10 objects"), ("pointer", "kern/a.cc:7", 0, "visits (kern/a.cc:7), a pointer"),
    ("array of chains", "", 1, "visits, an array of chains"), ("tree", "", 1, "visits, a tree")])
def test_the_kind_of_a_keeper(kind, place, holders, text):
    [line] = found([keeper(5, kind=kind, place=place, holders=holders)], [keeper(10, kind=kind, place=place, holders=holders)])
    assert line == text + ": +1 entry a run, of Visit (24 bytes)"


def test_what_swings_is_not_called_growth():
    """A ring of the last three entries has three in each memory, and a table that shrinks has fewer in the second."""
    assert found([keeper(3)], [keeper(3)]) == ["visits (kern/a.cc:7), a List: entries come and go: 3 after 5 runs, 3 after 10"]
    assert found([keeper(4)], [keeper(3)]) == ["visits (kern/a.cc:7), a List: entries come and go: 4 after 5 runs, 3 after 10"]


def test_entries_that_go_to_another_keeper_do_not_swing():
    """In a tree, entries move. Nothing is said then, because more objects are alive."""
    assert found([keeper(5, "left")], [keeper(5, "left"), keeper(4, "right")]) == []


def test_what_swings_is_left_out_beside_what_grows():
    assert found([keeper(3, "ring"), keeper(5)], [keeper(3, "ring"), keeper(10)]) == ["visits (kern/a.cc:7), a List: +1 entry a run, of Visit (24 bytes)"]


def test_what_came_once_is_left_out():
    """Entries of only one half, and a single entry that stays."""
    assert found([], [keeper(9)]) == found([keeper(9)], []) == found([keeper(1)], [keeper(1)]) == []


def test_reallocation():
    """A larger object in place of the first. An object of a typed cache cannot have grown, nor can one that has become smaller."""
    old, new = keeper(1, size=2048, kind="pointer"), keeper(1, size=4096, kind="pointer")
    assert found([old], [new], may_move=True) == ["visits (kern/a.cc:7), a pointer: the object is reallocated, 2048 bytes after 5 runs, 4096 after 10"]
    assert found([old], [new]) == found([new], [old], may_move=True) == found([old], [old], may_move=True) == []


def test_the_number_of_runs():
    """Half of the runs that named the leak, as far as they take a few seconds."""
    assert half_of([Run(0, 0.01)] * 6, 5) == 5
    assert half_of([Run(0, 0.01)] * 6, 61) == 31
    assert half_of([Run(0, 0.2)] * 6, 61) == 10
    assert half_of([Run(0, 9)] * 6, 5) == 2
    with pytest.raises(NotKnown, match="because a run takes 30 s"):
        half_of([Run(0, 30)] * 6, 5)


def test_objects_that_nobody_can_reach_are_not_asked_about():
    lost, kept, both = group([0, 1], offset=0x10), group([0, 1], offset=0x20), group([0, 1, 2], offset=0x30)
    verdict = judge([lost, kept, both], 5)
    lost.lost, both.lost = SimpleNamespace(objects=2, keeps=[]), SimpleNamespace(objects=1, keeps=[])
    assert groups_to_ask(verdict) == [kept, both]


def kept_group():
    one = group([0, 1], name="kmalloc_32")
    [(kept, _)] = compared([keeper(5)], [keeper(10)], 5)
    kept.frames = [[("make", "kern/a.h:1"), ("visits_add+0x24", "kern/a.cc:32")]]
    kept.stored = [("push_back", "kern/list.h:9"), ("visits_add+0x8d", "kern/a.cc:33")]
    one.kept = [kept]
    return one


def test_the_report():
    one = kept_group()
    assert lines_of(one) == ["    kept by   visits (kern/a.cc:7), a List: +1 entry a run, of Visit (24 bytes)",
                             "              its entries are allocated at visits_add+0x24  kern/a.cc:32",
                             "              appended at visits_add+0x8d  kern/a.cc:33",
                             "              shortest path: visits.head_.next → Visit"]
    assert "\n".join(lines_of(one)) in told(judge([one], 5))


def test_the_json_report_and_its_reader(tmp_path):
    [leak] = facts(judge([kept_group()], 5), 5, Untraced())["leaks"]
    [kept] = leak["kept_by"]
    assert (kept["field"], kept["place"], kept["kind"], kept["counts"], kept["stored"]) == ("visits", "kern/a.cc:7", "List", [5, 10], ("visits_add+0x8d", "kern/a.cc:33"))
    assert (kept["stack"], kept["lines"]) == (["make", "visits_add"], ["kern/a.h:1", "kern/a.cc:32"])
    profile = read(tmp_path / "report.json", json.dumps({"commands": [{"command": "c", "leaks": [leak]}]}))
    assert list(profile.holders.values()) == [["visits (kern/a.cc:7), a List: +1 entry a run, of Visit (24 bytes)"]]


def test_an_object_that_doubles_rarely_is_accused():
    """It goes through four of kmalloc's caches. The sum of kmalloc's bytes does not rise, because other objects come and go."""
    looks = series(*8 * [3], kmalloc_256=[1, 1, 0, 0, 0, 0, 0, 0], kmalloc_512=[4, 4, 5, 4, 4, 4, 4, 4], kmalloc_1024=[0, 0, 0, 1, 1, 1, 0, 0],
                   kmalloc_2048=[7, 7, 7, 7, 7, 7, 8, 8], kmalloc_96=[50, 90, 40, 10, 80, 20, 60, 30])
    [growth] = judge_counts(looks)
    assert (growth.name, growth.objects, growth.bytes, growth.moved) == ("kmalloc", 0, 2048 - 256, "kmalloc_256 kmalloc_512 kmalloc_1024 kmalloc_2048")
    assert str(growth) == "1792 bytes of one object that is reallocated, through kmalloc_256 kmalloc_512 kmalloc_1024 kmalloc_2048, in 96 untraced runs (7 looks)"
    assert runs_that_name([growth], 5) == 96


@pytest.mark.parametrize("counts", [
    {"kmalloc_256": [1, 1, 0, 0, 0, 0, 0, 0], "kmalloc_512": [4, 4, 5, 5, 5, 5, 5, 5]},  # it has moved only once
    {"kmalloc_256": [0, 0, 0, 0, 0, 0, 1, 1], "kmalloc_512": [4, 4, 5, 5, 5, 5, 4, 4], "kmalloc_1024": [1, 1, 0, 0, 0, 0, 0, 0]},  # it becomes smaller
    {"kmalloc_256": [1, 1, 0, 0, 0, 0, 0, 0], "kmalloc_512": [4, 4, 5, 5, 5, 4, 4, 4], "kmalloc_1024": [0, 0, 0, 0, 0, 0, 1, 1]},  # not at the same look
    {"kmalloc_256": [1, 1, 0, 1, 0, 1, 0, 1], "kmalloc_512": [0, 0, 1, 0, 1, 0, 1, 0]},
], ids=["once", "smaller", "apart", "to and fro"])
def test_what_moves_otherwise_is_not(counts):
    assert judge_counts(series(*8 * [3], kmalloc_96=[50, 90, 40, 10, 80, 20, 60, 30], **counts)) == []


def test_the_page_shows_it_once_for_a_stack():
    """A stack has a Key for each mark and process."""
    one = kept_group()
    frames = (Frame("visits_add", "kern/a.cc", 32),)
    lookup = SimpleNamespace(kernel=lambda build_id: None, kernel_frames=lambda build_id, stacks: dict.fromkeys(stacks, frames))
    profile = Profile()
    for mark in (0, 1):
        profile.add(Key("kmalloc_32", frames, mark=mark), Amount(1, 24))
    whole = dump()
    whole.stacks, whole.build_id = {one.stack: SimpleNamespace(frames=(1, 2))}, ""
    leak_files.add_keepers(profile, SimpleNamespace(accused=[one, one]), whole, lookup)
    assert [len(lines) for lines in profile.holders.values()] == [1]
    assert list(profile.holders.values())[0][0].endswith("; shortest path: visits.head_.next → Visit")
