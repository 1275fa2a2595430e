"""How the leak test judges unreachable objects (tools/stele/leak_unreachable.py)."""
import json

import pytest

import unreached
from leak_fakes import group
from stele.leak_hide import NOT_A_LEAK, Baseline, Hidden, parse_baseline
from stele.leak_report import Result, Untraced, as_json, facts, report
from stele.leak_unreachable import Lost, judge_unreachable, lost_since, parse_unreachable
from stele.leaks import CLEAN, LEAKED, judge

REPORT = """unreachable objects 12 bytes 736 heads 4 live 323 looks 2 returned 0 stopped_us 295

64 bytes in 2 objects of mount keeps 352 bytes in 6 objects from stack
	Namespace::bind+0x1c9 [kernel]
	keeps 240 bytes in 2 objects of chan
	keeps 80 bytes in 2 objects of mount_head
	keeps 32 bytes in 2 objects of kmalloc_16
	0xffff8000005e7080 size 32 keeps 176 bytes in 3 objects
	0xffff8000005e7040 size 32 keeps 176 bytes in 3 objects

256 bytes in 3 objects of fresh.2
	0xffff8000006e7080 size 64

64 bytes in 1 objects of debug_64 declared to stay from stack
	leak_at_depth+0x22 [kernel]
	0xffff8000006f7080 size 64
"""


def text_of(*groups, returned=0):
    """Returns a report of unreachable objects of 64 bytes. `groups`: (name, number of objects,
    address of one of them)."""
    lines = "".join(f"\n{64 * objects} bytes in {objects} objects of {name}\n\t{address:#x} size 64\n" for name, objects, address in groups)
    return f"unreachable objects 0 bytes 0 heads 0 live 9 looks 1 returned {returned} stopped_us 1\n{lines}"


def lost(before, after, groups=None, runs=5):
    return lost_since([parse_unreachable(before), parse_unreachable(after)], runs, groups)


def verdict_of(what, *groups, hidden=(), baseline=Baseline()):
    verdict = judge(list(groups), 5, hidden=hidden)
    judge_unreachable(verdict, what, baseline)
    return verdict


def test_a_report_is_read():
    one = parse_unreachable(REPORT)
    assert [(head.name, head.objects, head.bytes, head.stays) for head in one.heads] == [
        ("mount", 2, 64, False), ("fresh", 3, 256, False), ("debug_64", 1, 64, True)]
    assert one.heads[0].keeps == [("chan", 2, 240), ("mount_head", 2, 80), ("kmalloc_16", 2, 32)]
    assert one.heads[0].addresses == [0xffff8000005e7080, 0xffff8000005e7040]
    assert (one.totals()["chan"], one.returned) == (2, 0)
    for text in ("", "cat: #mem/unreachable: Out of memory\n", REPORT[1:]):
        assert parse_unreachable(text) is None


def test_what_was_lost_before_is_not_accused():
    assert lost(text_of(("chan", 2, 0x5000)), text_of(("chan", 2, 0x5000))) == ([], [])
    [one], _ = lost(text_of(("chan", 2, 0x5000)), text_of(("chan", 3, 0x6000)))
    assert (one.objects, one.bytes, one.group) == (1, 64, None)
    # In the second report (`held`), the chan object is listed under an unreachable mount object that
    # points to it.
    held = text_of(("mount", 1, 0x7000)) + "\tkeeps 64 bytes in 1 objects of chan\n"
    assert [one.name for one in lost(text_of(("chan", 1, 0x5000)), held)[0]] == ["mount"]
    assert lost(held, text_of(("chan", 1, 0x5000)))[0] == []


def test_what_the_trace_has_is_new_whatever_there_was():
    left = group([3], name="chan")
    [one], _ = lost(text_of(("chan", 2, 0x5000)), text_of(("chan", 1, 0x1000), ("chan", 2, 0x5000)), [left])
    assert (one.objects, one.group, one.traced) == (1, left, True)
    # A group matches only objects of its own cache or arena. A group of references does not match
    # any object.
    assert lost(text_of(("page", 1, 0x1000)), text_of(("page", 1, 0x1000)), [left, group([3], name="page", kind="references")])[0] == []


def test_a_look_that_failed_is_doubted():
    good = parse_unreachable(text_of())
    for looks in ([], [good], [good, None], [None, good]):
        assert lost_since(looks, 5) == ([], ["it is not known what nobody can reach: there was no memory to look, or the output was cut"])
    assert "3 objects were unreachable and then reached" in lost(text_of(), text_of(returned=3))[1][0]


def test_one_object_of_one_run_is_a_leak():
    left = group([3])
    verdict = verdict_of([Lost("debug_64", 1, 64, runs=5, traced=True, group=left)], left)
    assert (verdict.status, verdict.others, left.lost) == (LEAKED, [], verdict.unreachable[0])
    assert verdict_of([], group([3])).status == CLEAN


@pytest.mark.parametrize("untraced", (0, 8), ids=("traced", "both"))
def test_what_is_to_be_hidden_is(untraced):
    left = group([3])
    what = [Lost("debug_64", 1, 64, runs=5, traced=True, group=left), *([Lost("debug_64", untraced, 512, runs=20)] if untraced else [])]
    assert verdict_of(what, hidden=[Hidden("why", [left])]).status == CLEAN
    assert verdict_of(what, hidden=[Hidden(NOT_A_LEAK, [left])]).status == LEAKED  # other objects from this stack may leak
    what[0].stays = True
    assert verdict_of(what).status == CLEAN


def test_what_is_hidden_hides_no_more_than_itself():
    hidden = [Hidden("why", [group([3])])]
    known = Lost("debug_64", 1, 64, runs=5, traced=True, group=group([3]))
    assert verdict_of([known, Lost("debug_64", 100, 6400, runs=20)], hidden=hidden).status == LEAKED
    assert verdict_of([known, Lost("chan", 1, 64, runs=20)], hidden=hidden).status == LEAKED
    other = group([4], offset=0x50)
    verdict = verdict_of([known, Lost("debug_64", 1, 64, runs=5, traced=True, group=other), Lost("debug_64", 1, 64, runs=20)], other, hidden=hidden)
    assert [one.traced for one in verdict.unreachable] == [True, False]


def test_reports():
    class Programs:
        def look_up(self, _):
            return {}

    once, again = group([3]), group([0, 1, 2], name="chan", offset=0x50)
    what = [Lost("debug_64", 1, 64, keeps=[("mount", 2, 64), ("page", 1, 4096)], addresses=[0x1000], runs=5, traced=True, group=once),
            Lost("chan", 2, 128, addresses=[0x1000], runs=5, traced=True, group=again), Lost("inode", 3, 96, addresses=[0x2000], runs=5, traced=True),
            Lost("chan", 50, 3200, runs=129), Lost("fid", 1, 16, runs=129)]
    verdict = verdict_of(what, once, again)
    told = report(verdict, None, "true", [], 5, [], Programs(), Untraced())
    assert "    nobody can reach it any more\n    keeps 4160 bytes in 3 objects: 2 of mount, 1 of page\n" in told
    assert "    nobody can reach 2 of them any more\n" in told
    for name, amount, where in (("debug_64", "64 bytes in 1 objects", "\n64 bytes in 1 allocations of debug_64 from stack\n"),
                                ("chan", "128 bytes in 2 objects", "    from a stack above\n"),
                                ("inode", "96 bytes in 3 objects", "    allocated before the trace began, so no stack is known: 0x2000\n")):
        assert f"LEAKED (unreachable): nobody can reach {amount} of {name}, lost in 5 traced runs\n{where}" in told
    assert "3200 bytes in 50 objects of chan, lost in 129 untraced runs\n    from the stacks of that cache or arena above\n" in told
    assert "16 bytes in 1 objects of fid, lost in 129 untraced runs\n    the traced runs lost none of it, so no stack is known\n" in told
    assert [growth.name for growth in verdict.unnamed] == ["fid"]
    written = as_json([Result("true", LEAKED, told, facts=facts(verdict, 5, Untraced()))])
    [first, *_] = json.loads(written)["commands"][0]["unreachable"]
    assert first == {"name": "debug_64", "objects": 1, "bytes": 64, "runs": 5, "traced": True, "addresses": ["0x1000"], "lines": ["kern/a.cc:2", "kern/a.cc:9"],
                     "stack": ["leak_at_depth", "debug_alloc_write"],
                     "keeps": [{"name": "mount", "objects": 2, "bytes": 64}, {"name": "page", "objects": 1, "bytes": 4096}]}
    baseline = parse_baseline(written)
    assert ("debug_64", ("leak_at_depth", "debug_alloc_write")) in baseline.stacks
    verdict = verdict_of([Lost("fid", 1, 16, runs=129)], baseline=baseline)
    assert (verdict.status, [growth.name for one in verdict.hidden for growth in one.growths]) == (CLEAN, ["fid"])


# The checks that guest tests make on reports of unreachable objects (tests/guest/unreached.py).


def test_what_a_script_plants():
    for script, planted, others in (("ls", ("leaky", "debug_64"), ("chan", "page")), ("echo leak chan 3 > '#debug/alloc'", ("chan",), ("chan_buffer", "page")),
                                    ("printf 'leak kmalloc 2\\ncache mine 1 3'", ("kmalloc_96", "page", "mine"), ("chan",))):
        lost = unreached.planted_in(script)
        for name in planted:
            unreached.check(text_of((name, 3, 0x5000)), lost)
        for name in others:
            with pytest.raises(unreached.Lost):
                unreached.check(text_of((name, 3, 0x5000)), lost)
    with pytest.raises(unreached.Lost):
        unreached.check(text_of(returned=1) + "returned 0x5000 of chan\n", "debug_64")


def test_reports_of_a_guest():
    lost, clean, found = "debug_64", text_of(), text_of(("chan", 3, 0x5000))
    for said in ("", f"status 0\n{clean}", "status 1\nunreachable: Out of memory: no memory for the results\n"):
        unreached.check_the_end(said, lost)
    for said in (f"status 0\n{found}", "status 0\n", "status 0\nunreachable: No such file or directory\n"):
        with pytest.raises(unreached.Lost):
            unreached.check_the_end(said, lost)
    assert unreached.check_meanwhile("", lost) == 0
    assert unreached.check_meanwhile(f"sh: what?\n{clean}ls: none\n{clean}", lost) == 2
    with pytest.raises(unreached.Lost):
        unreached.check_meanwhile(f"{clean}sh: what?\n{found}{clean}", lost)
