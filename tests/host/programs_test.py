"""How programs of leakfuzz are made smaller."""
from stele.programs import calls_of, programs_of, without_part

PROGRAMS = ["0 open P3 2 0; write 3 D1 40; close 3", "65534 fork", "0 getpid; getpid"]


def test_calls_and_back():
    calls = calls_of(PROGRAMS)
    assert calls[2:4] == [(0, "0", "close 3"), (1, "65534", "fork")]
    assert programs_of(calls) == PROGRAMS
    assert programs_of(calls[1:2] + calls[-1:]) == ["0 write 3 D1 40", "0 getpid"]


def test_only_what_is_needed_stays():
    for needed in ({0}, {99}, {3, 71}, {10, 11, 12, 90}, set(range(100))):
        asked = []

        def holds(items):
            asked.append(items)
            return needed <= set(items)

        assert set(without_part(list(range(100)), holds)) == needed
        assert all(len(set(items)) == len(items) for items in asked)


def test_one_of_a_batch_takes_few_attempts():
    asked = []

    def holds(items):
        asked.append(items)
        return 37 in items

    assert without_part(list(range(48)), holds) == [37]
    assert len(asked) <= 16


def test_the_time_is_over():
    left = [5]

    def in_time():
        left[0] -= 1
        return left[0] > 0

    assert 60 in without_part(list(range(100)), lambda items: 60 in items, in_time)
