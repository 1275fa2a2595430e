"""How scripts/load reads and judges the output of its guest."""
import pytest

import checkout

load = checkout.script("load")

OUTPUT = """load round 1 off 100
load round 1 all 150
load round 1 sampled 102
load round 2 all 330
load round 2 sampled 330
load round 2 off 300
load round 3 off 500
load end
"""
AT_REST = "status 0\nunreachable objects 0 bytes 0 heads 0 live 300 looks 2 returned 0 stopped_us 254\n"
LOST = ("status 0\nunreachable objects 2 bytes 256 heads 1 live 300 looks 2 returned 0 stopped_us 254\n"
        "128 bytes in 1 objects of chan keeps 128 bytes in 1 objects\n\t0xffff800000100000 size 128\n")


def test_a_round_counts_when_it_was_run_in_all_modes():
    rounds = load.rounds_of(OUTPUT)
    assert rounds == {1: {"off": 100, "all": 150, "sampled": 102}, 2: {"off": 300, "all": 330, "sampled": 330}}
    assert [line.split() for line in load.table(rounds)[1:]] == [
        ["off", "2", "2.00", "0.0%", "0.0%"], ["all", "2", "2.40", "20.0%", "30.0%"], ["sampled", "2", "2.16", "8.0%", "6.0%"]]


@pytest.mark.parametrize("status, output, lost, expected", [
    (0, OUTPUT, AT_REST, load.CLEAN),
    (134, OUTPUT, "", load.WRONG),
    (124, OUTPUT, "", load.WRONG),
    (0, OUTPUT + "load failed zlib example\n", AT_REST, load.WRONG),
    (0, OUTPUT, LOST, load.WRONG),
    (0, "load end\n", AT_REST, load.UNKNOWN),
    (2, OUTPUT, AT_REST, load.UNKNOWN),
    (125, "", "", load.UNKNOWN),
])
def test_verdict(status, output, lost, expected):
    got, why = load.verdict(status, output, load.unreachable_in(lost))
    assert got == expected
    assert bool(why) == (expected != load.CLEAN)
