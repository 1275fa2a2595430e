"""How leakfuzz reduces its programs, which are lists of system calls, to the calls that are needed
for a leak."""
from stele.programs import calls_of, pieces, programs_of, without_part

PROGRAMS = ["0 open P3 2 0; write 3 D1 40; close 3", "65534 fork", "0 getpid; getpid"]


def test_calls_and_back():
    calls = calls_of(PROGRAMS)
    assert calls[2:4] == [(0, "0", "close 3"), (1, "65534", "fork")]
    assert programs_of(calls) == PROGRAMS
    assert programs_of(calls[1:2] + calls[-1:]) == ["0 write 3 D1 40", "0 getpid"]


def test_pieces_have_all_lines_in_order():
    lines = ["x" * 30, "y" * 30, "z" * 100, "", "ä" * 15, "w" * 20]
    found = pieces(lines, 70)
    assert [line for _, part in found for line in part] == lines
    assert [first for first, _ in found] == [0, 2, 3]
    assert pieces([], 70) == []


def first_that(holds, asked=None):
    """Replaces the guest: returns a function that finds the first candidate for which `holds` is
    true. Each list of candidates is added to `asked`."""
    def first(candidates):
        if asked is not None:
            asked.append(candidates)
        return next((index for index, items in enumerate(candidates) if holds(items)), None)
    return first


def test_only_what_is_needed_stays():
    for needed in ({0}, {99}, {3, 71}, {10, 11, 12, 90}, set(range(100))):
        asked = []
        assert set(without_part(list(range(100)), first_that(lambda items: needed <= set(items), asked))) == needed
        assert all(items and len(set(items)) == len(items) for candidates in asked for items in candidates)


def test_one_of_a_batch_takes_few_questions():
    asked = []
    assert without_part(list(range(48)), first_that(lambda items: 37 in items, asked)) == [37]
    assert len(asked) <= 8


def test_the_time_is_over():
    left = [5]

    def in_time():
        left[0] -= 1
        return left[0] > 0

    assert {60, 61} <= set(without_part(list(range(100)), first_that(lambda items: {60, 61} <= set(items)), in_time))
