"""How scripts/leaktest judges the command itself, by the exit statuses and times of its runs."""
import pytest

from stele.leak_command import Run, doubts_about_command, expected_statuses, statuses_of
from stele.leak_guest import passes_of


def runs(*statuses, seconds=0.1):
    return [Run(status, seconds) for status in statuses]


def times(*seconds):
    return [Run(0, one) for one in seconds]


@pytest.mark.parametrize("statuses, doubts", [
    ([0] * 6, []), ([7] * 6, []), ([125] * 6, []), ([128] * 6, []),
    ([127] * 6, ["the command was not found (status 127)"]),
    ([126] * 6, ["the command could not be executed (status 126)"]),
    ([139] * 6, ["the command was killed by SIGSEGV (status 139)"]),
    ([255] * 6, ["the command was killed by signal 127 (status 255)"]),
    ([0, 1, 1, 1, 1, 1], ["the command ended with status 1 in 5 of 6 runs, but with status 0 in the first"]),
    ([0, 0, 0, 0, 0, 137], ["the command was killed by SIGKILL (status 137) in 1 of 6 runs, but ended with status 0 in the first"]),
    ([127, 0, 0], ["the command was not found (status 127)", "the command ended with status 0 in 2 of 3 runs, but was not found (status 127) in the first"]),
])
def test_statuses(statuses, doubts):
    assert doubts_about_command([runs(*statuses)]) == doubts


def test_a_pass_that_ends_otherwise_than_the_pass_before():
    assert doubts_about_command([runs(0, 0, 0), runs(1, 1)]) == ["the command ended with status 1 in 2 of 5 runs, but with status 0 in the first"]
    assert doubts_about_command([[], runs(0, 0)]) == [] and doubts_about_command([[], []]) == []


@pytest.mark.parametrize("expected, statuses, doubts", [
    ("0", [0, 0], []), ("139", [139, 139], []), ("127", [127], []), ("0,1", [0, 1, 0], []), ("0 1", [1, 0], []),
    ("0", [1, 1], ["the command ended with status 1 in 2 of 2 runs, not with 0 (EXPECT)"]),
    ("0,3", [0, 1, 3], ["the command ended with status 1 in 1 of 3 runs, not with 0 or 3 (EXPECT)"]),
    ("1", [127], ["the command was not found (status 127) in 1 of 1 run, not with 1 (EXPECT)"]),
])
def test_expected_statuses(expected, statuses, doubts):
    assert doubts_about_command([runs(*statuses)], expected_statuses(expected)) == doubts


@pytest.mark.parametrize("bad", ["x", "0,x", "256", "-1", "1.5", ""])
def test_expected_statuses_that_are_none(bad):
    with pytest.raises(ValueError):
        expected_statuses(bad)


@pytest.mark.parametrize("seconds, doubt", [
    ([0.1] * 6, ""), ([0.4, 0.05, 0.05, 0.05, 0.05], ""),
    ([3.0, 0.1, 0.1, 0.1, 0.1], "the first run of the command took 3.0 s, but the later ones 0.1 s"),
    ([0.1, 0.1, 0.1, 3.0, 3.0, 3.0], "the later runs of the command took 3.0 s, but the first ones at most 0.1 s"),
    ([0.1, 0.1, 0.1, 0.1, 12.0, 0.1, 0.1], "a run of the command took 12.0 s, but the first ones at most 0.1 s"),
    ([0.1, 0.1, 0.1, 0.1, 5.0, 0.1, 0.1], ""),  # the host was busy
    ([20.0, 20.0, 20.0, 60.0, 20.0], ""), ([0.1, 3.0], ""), ([2.0] * 3 + [3.0] * 3, ""), ([0.1] * 3 + [0.9] * 9, ""),
])
def test_times(seconds, doubt):
    assert doubts_about_command([times(*seconds)]) == [doubt] * bool(doubt)


def test_times_of_passes_are_not_compared():
    """The tracer makes a command slower."""
    assert doubts_about_command([times(*[0.1] * 6), times(*[3.0] * 6)]) == []


def test_statuses_of():
    assert statuses_of(runs(3, 3)) == "exit status: 3"
    assert statuses_of(runs(0, 1, 1)) == "exit statuses: 0 (1 run), 1 (2 runs)"
    assert statuses_of([]) == "exit status: not known"


def test_runs_are_read():
    [one], error = passes_of(b"leaktest pass\nleaktest run 0 12\nleaktest run 127 340\nleaktest settled 1\nleaktest settled 0\nleaktest ended\n")
    assert (one.ends, one.settled, one.ended, error) == ([Run(0, 0.12), Run(127, 3.4)], False, True, None)
