"""Finds the moments of a recorded run at which an object was lost.

A moment has one of four states (debugger/moment.py). An object is first "none"; then it is known to functions that run ("passing") or to other objects
("held"), by turns; in the end it is "lost". But after the object was lost, it may seem to be passing again: a function's stack frame may lie over words
that earlier functions have left on the stack. In contrast, "held" and "none" say for certain that the object was not yet lost. So among the moments
after the last certain one, the first at which the object is lost counts.

Each round asks about several moments at once.
"""
import concurrent.futures
from dataclasses import dataclass

NONE, PASSING, HELD, LOST = "none", "passing", "held", "lost"
_DISTANCES = [factor * 10**power for power in range(1, 7) for factor in (1, 3)]  # instructions: moments near one that was found
_EVENLY = 8  # moments in an interval that is looked through
_SHIFT = 61  # instructions to another moment, if memory cannot be read because the kernel is changing it


class NotFound(Exception):
    """There is no such moment. The message is one line."""


@dataclass
class Change:
    """`low`, `high`: the moments before and after the change, usually two that follow each other. `before`, `after`: their descriptions."""

    low: int
    high: int
    before: dict
    after: dict


class Moments:
    """The moments that have been asked about. `ask(moment)` returns a description of the moment, a dictionary with its "state"; None if memory cannot be
    read then. `width` threads call it. `step(number)` is called after each round, with the number of its moments."""

    def __init__(self, ask, width, step=lambda number: None):
        self.ask, self.width, self.step = ask, width, step
        self.known, self._asked = {}, set()

    def look(self, moments):
        new = sorted(set(moments) - self._asked)
        self._asked.update(new)
        if new:
            with concurrent.futures.ThreadPoolExecutor(self.width) as pool:
                found = dict(zip(new, pool.map(self.ask, new), strict=True))
            self.known.update({moment: answer for moment, answer in found.items() if answer})
            self.step(len(new))

    def all(self, *states):
        return [moment for moment, answer in self.known.items() if answer["state"] in states]

    def divide(self, low, high):
        """Asks about moments that divide an interval evenly. If no memory can be read there, asks about their neighbours."""
        before = len(self.known)
        self.look({low + (high - low) * (i + 1) // (self.width + 1) for i in range(self.width)} - {low, high})
        if len(self.known) == before:
            middle = (low + high) // 2
            around = {middle + sign * shift * i for i in range(1, 9) for sign in (-1, 1) for shift in (1, _SHIFT)}
            self.look(moment for moment in around if low < moment < high)
        return len(self.known) > before

    def change(self, low, high):
        if low not in self.known:
            raise NotFound("the object was lost before memory could be read")
        return Change(low, high, self.known[low], self.known[high])


def first_lost(moments, low, high):
    """Returns the Change after which the object was lost. The object is not lost at `low`; at `high` it is, or NotFound is raised."""
    moments.look([high])
    if high not in moments.all(LOST):
        raise NotFound("the object is not lost at the end of the recorded run")
    looked_through = None
    while True:
        certain = max([low, *moments.all(NONE, HELD)])
        lost = min(moment for moment in moments.all(LOST) if moment > certain)
        before = max([certain, *(moment for moment in moments.all(PASSING) if moment < lost)])
        if lost - before > 1 and moments.divide(before, lost):
            continue
        if looked_through == (certain, lost):
            return moments.change(before, lost)
        looked_through = certain, lost
        moments.look(_between(certain, lost) + [lost + distance for distance in _DISTANCES[::2] if lost + distance < high])


def last_held(moments, low, high):
    """Returns the last Change between `low` and `high` after which no other object and no static memory knew the object; None if none ever did, as far as
    was seen. The object is not held at `high`."""
    moments.look(_between(low, high))
    begin = max([low, *(moment for moment in moments.all(NONE) if moment < high)])
    while True:
        held = max((moment for moment in moments.all(HELD) if begin <= moment < high), default=None)
        if held is None:
            return None
        after = min(moment for moment in moments.known if moment > held)
        if after - held <= 1 or not moments.divide(held, after):
            return moments.change(held, after)


def _between(low, high):
    """Returns moments of an interval: some that divide it evenly, and more and more of them towards its end."""
    evenly = [low + (high - low) * i // (_EVENLY + 1) for i in range(1, _EVENLY + 1)]
    return [moment for moment in (*evenly, *(high - distance for distance in _DISTANCES)) if low < moment < high]
