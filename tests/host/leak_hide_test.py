"""Tests of findings that the leak test hides: a suppression or a baseline names them, or the kernel declares that the objects stay."""
import pytest

from leak_fakes import group, growth, told
from stele.leak_hide import KNOWN, NOT_A_LEAK, Baseline, HideError, Suppression, hide, parse_baseline, parse_suppressions
from stele.leak_report import Result, Untraced, as_json, facts
from stele.leaks import CLEAN, judge
from stele.tracedump import NOT_LEAK, Record


def test_suppressions():
    assert parse_suppressions("# comment\n\nleak_at_depth for a test # why\nchan:Device::walk a b\nDevice::open c\n") == [
        Suppression("", "leak_at_depth", "for a test"), Suppression("chan", "Device::walk", "a b"), Suppression("", "Device::open", "c")]
    with pytest.raises(HideError, match='line 2: "walk" has no reason'):
        parse_suppressions("open why\nwalk\n")


def test_what_is_suppressed_is_counted():
    groups = [group([0, 1]), group([0, 1], function="other"), group([2, 3, 4], name="chan", function="walk")]
    [rest], _, [hidden] = hide(groups[:2], [], 5, parse_suppressions("leak_at_depth known\nchan:other not this one"))
    assert (rest.function, hidden.why, hidden.objects, hidden.bytes) == ("other", "leak_at_depth: known", 2, 128)
    kept, _, hidden = hide(groups, [], 5, parse_suppressions("debug_alloc_write whoever calls it"))
    assert (kept, hidden[0].objects) == ([], 7)
    verdict = judge(kept, 5, hidden=hidden)
    assert verdict.status == CLEAN
    assert "hidden (not counted):\n    7 objects, 448 bytes from 3 stacks: debug_alloc_write: whoever calls it\n" in told(verdict)


def test_objects_that_stay():
    staying = group([0, 1, 2])
    staying.records = [record._replace(flags=NOT_LEAK) for record in staying.records]
    mixed = group([0, 1, 2], name="chan")
    mixed.records[0] = Record(1, 64, 0, 1, 1, flags=NOT_LEAK)
    kept, accused, [hidden] = hide([staying, mixed], [growth(), growth("chan")], 5)
    assert [(one.name, len(one.records)) for one in kept] == [("chan", 2)]
    assert (hidden.why, hidden.objects, [one.name for one in hidden.growths], [one.name for one in accused]) == (NOT_A_LEAK, 4, ["debug_64"], ["chan"])


def test_one_hidden_object_does_not_hide_growth():
    kept, accused, _ = hide([group([0])], [growth()], 5, [Suppression("", "leak_at_depth", "x")])
    assert (kept, [one.name for one in accused]) == ([], ["debug_64"])


@pytest.mark.parametrize("objects, hides", [(5, True), (230, True), (231, False), (960, False)])
def test_hidden_objects_hide_growth_of_their_rate(objects, hides):
    """Each of five traced runs leaks one hidden object. `objects` is the growth in 96 untraced
    runs."""
    _, accused, [hidden] = hide([group(range(5))], [growth(objects=objects)], 5, [Suppression("", "leak_at_depth", "x")])
    assert (accused == [], hidden.growths != []) == (hides, hides)


def test_hidden_objects_that_leak_seldom():
    """After growth by three objects in 96 untraced runs, 192 traced runs should leave six objects.
    The traced runs left only two objects. Two hidden objects are enough to hide the growth."""
    assert hide([group([0, 7])], [growth(objects=3)], 192, [Suppression("", "leak_at_depth", "x")])[1] == []


def test_hidden_bytes_hide_reallocation_of_their_rate():
    regrown = [group([0, 1], "kmalloc_2048", size=2048)]
    for size, hides in ((96 * 800, True), (96 * 8000, False)):
        accused = hide(regrown, [growth("kmalloc", 0, size)], 5, [Suppression("", "leak_at_depth", "x")])[1]
        assert (accused == []) == hides


def baseline_of(*groups, growths=()):
    return parse_baseline(as_json([result_of(*groups, growths=growths)]))


def result_of(*groups, growths=()):
    verdict = judge(groups, 5, growths=growths)
    return Result("some command", verdict.status, "text", facts=facts(verdict, 5, Untraced()))


def test_a_baseline_hides_what_it_has():
    """The baseline is the JSON report of an earlier run. It matches by functions, not by addresses
    or lines."""
    baseline = baseline_of(group([0, 1]), group([2], name="chan"), growths=[growth("chan")])
    kept, accused, [hidden] = hide([group([0, 1], offset=0x99), group([3], name="chan"), group([0, 1], function="new")], [growth("chan"), growth("task")],
                                   5, baseline=baseline)
    assert ([(one.name, one.function) for one in kept], [one.name for one in accused]) == ([("debug_64", "new")], ["task"])
    assert (hidden.why, hidden.objects, [one.name for one in hidden.growths]) == (KNOWN, 3, ["chan"])


def test_a_baseline_does_not_hide_new_stacks_of_what_grew():
    baseline = baseline_of(group([0, 1], name="chan"), growths=[growth("chan")])
    new = group([0], name="chan", function="new")
    kept, accused, _ = hide([group([0, 1], name="chan"), new], [growth("chan")], 5, baseline=baseline)
    assert (kept, [one.name for one in accused]) == ([new], ["chan"])


def test_a_baseline_hides_growth_of_its_rate():
    baseline = baseline_of(growths=[growth("chan", 24, 1536, runs=96), growth("kmalloc", 0, 96000, runs=96)])

    def accused(*now):
        return hide([], [growth(*now)], 5, baseline=baseline)[1] != []

    assert not accused("chan", 48, 3072, 96) and not accused("chan", 96, 6144, 192)
    assert accused("chan", 49, 3072, 96) and accused("chan", 24, 3073, 96)
    assert not accused("kmalloc", -2, 192000, 96) and not accused("kmalloc", 0, 192000, 96)
    assert accused("kmalloc", 0, 192001, 96) and accused("kmalloc", 1, 96, 96)


def test_a_baseline_of_several_commands_has_the_highest_rate():
    results = [result_of(growths=[growth("chan", objects)]) for objects in (1, 24, 2)]
    assert hide([], [growth("chan", 48)], 5, baseline=parse_baseline(as_json(results)))[1] == []


def test_what_is_no_baseline():
    assert parse_baseline(as_json([result_of()])) == Baseline()
    for text_ in ("", "[]", "{}", '{"commands": 3}', '{"commands": [{"leaks": [{}]}]}',
                  '{"commands": [{"growths": [{"name": "a", "objects": 1, "bytes": 8, "runs": 0, "alive": []}]}]}'):
        with pytest.raises(HideError):
            parse_baseline(text_)
