"""bench/: what is read from the guest and from a listing, and when a count is worse."""
import pytest

import bench
import counts

LISTING = """
ffffffff80100f70 <kmem_cache_free>:
ffffffff80100f70:	test   %rsi,%rsi
ffffffff80100f73:	je     ffffffff80100fd0 <kmem_cache_free+0x60>
ffffffff80100f98:	testb  $0x2,0x181(%rax)
ffffffff80100f9f:	jne    ffffffff80100fd1 <kmem_cache_free+0x61>
ffffffff80100fa1:	mov    0x184(%rax),%edx
ffffffff80100fcb:	ret
ffffffff80100fd1:	testb  $0x2,0x181(%rax)
"""


def test_rows():
    assert counts.parse("untraced 65.00\ndump 3257.32\n") == {"untraced": 65.0, "dump": 3257.32}
    with pytest.raises(ValueError):
        counts.parse("cat: out of memory\n")


def test_flag_tests_are_those_of_the_path():
    path = counts.path_of(LISTING)
    assert len(path) == 6
    assert counts.flag_tests(path) == 2
    with pytest.raises(ValueError):
        counts.flag_tests(path[:2])


def test_what_is_worse():
    baseline = {"untraced": 65.0, "traced": 300.0}
    assert counts.worse(baseline, baseline) == []
    assert counts.worse({"untraced": 60.0, "traced": 305.9}, baseline) == []
    assert counts.worse({"untraced": 70.0, "traced": 300.0}, baseline) == ["untraced: 70, and it was 65"]
    assert counts.worse({"untraced": 65.0}, baseline) == ["traced: not counted any more"]
    assert counts.worse(baseline | {"more": 1.0}, baseline) == ["more: the baseline has no such row"]


def test_figures_say_what_misses_its_target():
    figures = bench.figures({"untraced": 70.0, "traced": 299.0, "host_share_of_control": 0.8, "dump_binary": 5.0})
    assert [(row["name"], row["target"], row["ok"]) for row in figures] == [("untraced", 64, False), ("traced", 300, True), ("dump_binary", None, True),
                      ("host_share_of_control", 0.9, False)]
    assert all(row.keys() == {"name", "value", "unit", "target", "ok"} for row in figures)
    assert "MISSED" in bench.table({"untraced": 70.0})


def test_a_row_that_was_not_measured_is_named():
    values = {row[0]: 1.0 for row in bench.ROWS}
    assert bench.unmeasured(values, False) == []
    del values["dump"], values["host_untraced"]
    assert bench.unmeasured(values, False) == ["dump", "host_untraced"]
    assert bench.unmeasured(values, True) == ["dump"]


def test_every_row_of_the_baseline_is_explained():
    assert counts.baseline().keys() <= {row[0] for row in bench.ROWS}
