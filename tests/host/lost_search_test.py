"""The search for the moments at which an object was lost (tools/stele/lost_search.py)."""
import pytest

from stele.lost_search import HELD, LOST, NONE, PASSING, Moments, NotFound, first_lost, last_held

END = 100_000_000
MADE = 20_000_000  # the moment of the allocation


class Run:
    """A run in which the object is lost from the moment `lost` on, and held in the moments of `held`. `stale`: ranges in which stale words lead to the lost
    object. `unreadable`: a range in which memory cannot be read. `earlier`: a range in which an earlier object at the same address is held."""

    def __init__(self, lost, held=range(0), stale=(), unreadable=range(0), earlier=range(0), width=2):
        self.lost, self.held, self.stale, self.unreadable, self.earlier, self.asked = lost, held, stale, unreadable, earlier, 0
        self.moments = Moments(self.ask, width)

    def ask(self, moment):
        self.asked += 1
        if moment in self.unreadable:
            return None
        if moment < MADE:
            return {"state": HELD if moment in self.earlier else NONE}
        if moment in self.held:
            return {"state": HELD}
        return {"state": LOST if moment >= self.lost and not any(moment in words for words in self.stale) else PASSING}

    def find(self):
        found = first_lost(self.moments, 0, END)
        return found.low, found.high


@pytest.mark.parametrize("width", (1, 2, 3, 8))
@pytest.mark.parametrize("lost", (MADE + 1, MADE + 2, MADE + 5000, 77_777_777, END - 1, END))
def test_the_instruction_is_found(lost, width):
    assert Run(lost, width=width).find() == (lost - 1, lost)


def test_few_moments_are_asked_about():
    run = Run(50_000_001)
    run.find()
    assert run.asked < 70


@pytest.mark.parametrize("stale", ([range(MADE + 6000, MADE + 9000)], [range(90_000_000, 99_000_000)],
                                   [range(begin, begin + 40_000) for begin in range(MADE + 100_000, END - 50_000, 100_000)]))
def test_stale_words_do_not_count(stale):
    """Functions that run after the loss have stack frames over words of those that ran before."""
    lost = MADE + 5000
    assert Run(lost, stale=stale).find() == (lost - 1, lost)


def test_what_is_held_is_not_lost():
    """A moment at which the object only seems lost does not count, if it is held later."""
    run = Run(MADE + 100, held=range(60_000_000, 60_000_500))
    run.moments.look([60_000_100])
    assert run.find() == (60_000_499, 60_000_500)


def test_moments_at_which_memory_cannot_be_read_are_passed_over():
    lost = 33_333_333
    assert Run(lost, unreadable=range(0, MADE)).find() == (lost - 1, lost)
    assert Run(lost, unreadable=range(lost - 300, lost - 10)).find() == (lost - 1, lost)
    low, high = Run(lost, unreadable=range(lost - 20, lost + 20)).find()
    assert low < lost <= high and high - low < 200


@pytest.mark.parametrize("held", (range(MADE + 100, MADE + 4000), range(MADE, MADE + 4990)))
def test_the_last_holder_is_found(held):
    run = Run(MADE + 5000, held)
    assert run.find() == (MADE + 4999, MADE + 5000)
    change = last_held(run.moments, MADE, MADE + 5000)
    assert (change.low, change.high) == (held[-1], held[-1] + 1)


def test_what_was_never_held_has_no_holder():
    run = Run(MADE + 5000)
    run.find()
    assert last_held(run.moments, MADE, MADE + 5000) is None


def test_the_holder_of_an_earlier_object_does_not_count():
    run = Run(MADE + 5000, earlier=range(5_000_000, 15_000_000))
    run.find()
    assert last_held(run.moments, 0, MADE + 5000) is None


def test_what_is_never_lost_has_no_moment():
    with pytest.raises(NotFound, match="not lost at the end"):
        Run(END + 1).find()
    with pytest.raises(NotFound, match="not lost at the end"):
        Run(5, unreadable=range(END, END + 1)).find()
    with pytest.raises(NotFound, match="before memory could be read"):
        Run(0, unreadable=range(END - 5)).find()
