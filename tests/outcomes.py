"""Items of pytest for the tests of a program that runs many tests at once. The result of each item comes from the program's output."""
from typing import NamedTuple

import pytest


class Outcome(NamedTuple):
    result: str  # "passed", "failed" or "skipped"
    seconds: float
    output: str


class Failed(Exception):
    """A test failed. The exception's text is the output of the test."""


class OutcomeItem(pytest.Item):
    """A test of a program that runs many tests. The method `outcome(item)` of the item's parent returns the item's Outcome. The first call of that
    method runs the program."""

    def runtest(self):
        outcome = self.parent.outcome(self)
        self.seconds = outcome.seconds
        if outcome.result == "skipped":
            pytest.skip(outcome.output)
        if outcome.result == "failed":
            raise Failed(outcome.output)

    def repr_failure(self, excinfo):
        return str(excinfo.value) if isinstance(excinfo.value, Failed) else super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, self.name


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Reports the time that the program gives for this item. Otherwise the first item would have the time of the whole program."""
    report = (yield).get_result()
    if isinstance(item, OutcomeItem) and call.when == "call":
        report.duration = getattr(item, "seconds", report.duration)
