"""Programs that run many tests at once: an item for each test, with its result from the program's
output."""
from typing import NamedTuple

import pytest


class Outcome(NamedTuple):
    result: str  # "passed", "failed" or "skipped"
    seconds: float
    output: str


class Failed(Exception):
    """The text is the output of the failed test."""


class OutcomeItem(pytest.Item):
    """The parent's `outcome(item)` returns an Outcome, and runs the program for the first of the
    items."""

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
    """The time of an item is its own, not that of the program that ran for the first one."""
    report = (yield).get_result()
    if isinstance(item, OutcomeItem) and call.when == "call":
        report.duration = getattr(item, "seconds", report.duration)
