"""How many tests of a commit are enough, if the leak does not show in each of them.

A test that shows the leak is certain: the commit has it. A commit whose tests are all clean may have it all the same. How likely this is depends on
how often the leak shows, which is not known: each share from 0 to 1 is taken to be equally likely at first (Bayes and Laplace), and the tests of the
commits that have the leak tell the rest. So for a commit with the leak, a share has the distribution Beta(leaks + 1, clean + 1), and the chance that
`n` further tests are all clean is B(leaks + 1, clean + 1 + n) / B(leaks + 1, clean + 1).
"""
import math


class Odds:
    """What the tests of the commits that have the leak tell about its next tests."""

    def __init__(self):
        self.leaks = self.tests = 0

    def add(self, leaks, tests):
        """Adds tests of a commit that has the leak: `leaks` of them have shown it."""
        self.leaks += leaks
        self.tests += tests

    def silence(self, tests):
        """Returns the chance that a commit with the leak does not show it in `tests` tests."""
        clean = self.tests - self.leaks
        return math.exp(_log_beta(self.leaks + 1, clean + 1 + tests) - _log_beta(self.leaks + 1, clean + 1))

    def needed(self, chance):
        """Returns the smallest number of tests after which silence() is at most `chance`."""
        most = 1
        while self.silence(most) > chance:
            most *= 2
        least = most // 2 + 1
        while least < most:
            middle = (least + most) // 2
            least, most = (least, middle) if self.silence(middle) <= chance else (middle + 1, most)
        return most


def _log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
