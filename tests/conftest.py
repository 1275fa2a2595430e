"""Shared by all tests: selects tests, distributes them over processes, and prints the last line of the output.

Three collectors make the items: pytest's own for *_test.py, googletest.py for tests/host/*_test.cc
and kernel_tests.py for kern/tests/*_test.cc. An item is named FILE::NAME, and `make test
TESTS=word` selects the items whose name contains the word.

Tests run in several processes (pytest-xdist). QEMU has a thread for each CPU of a guest, except with
-icount. So all tests whose guests have several CPUs, and that do not use -icount, form the group
MANY_CPUS: one process runs them, one after the other, while the other processes run all other tests.
"""
import os
import shlex

import pytest

import googletest
import guest
import kernel_tests
import outcomes
import unreached
from stele.progress import Progress

MANY_CPUS = "many_cpus"


def pytest_addoption(parser):
    parser.addoption("--words", default="", help="run tests whose names contain one of these words only")
    parser.addoption("--ask-meanwhile", metavar="FILE", help="test nothing but that no script loses anything: see tests/guest/unreached.py")
    parser.addoption("--ask-cpus", type=int, default=guest.CPUS, help="CPUs of the guests then")


def pytest_configure(config):
    guest.ask_meanwhile, guest.ask_cpus = config.getoption("ask_meanwhile"), config.getoption("ask_cpus")
    # Each plugin is registered explicitly, because a conftest.py collects only in its own folder.
    for plugin in (googletest, kernel_tests, outcomes):
        config.pluginmanager.register(plugin)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter())


def full_name(nodeid):
    """The name of a test, without the group that xdist appends."""
    return nodeid.rpartition("@")[0] or nodeid


def selected(items, words):
    """Returns the item whose name is exactly `words`; a name may contain blanks. If there is no such item, returns all items whose names
    contain one of the words."""
    exact = [item for item in items if item.nodeid == words]
    return exact or [item for item in items if any(word in item.nodeid for word in words.split())]


def cpus_of(item):
    marker = item.get_closest_marker("cpus")
    return marker.args[0] if marker else guest.CPUS


def group_of(item):
    """Returns the item's group; one process runs all tests of a group, one after the other. None if any process may run the item."""
    runs_guests = item.path.parent.name != "host"
    if runs_guests and cpus_of(item) > 1 and not item.get_closest_marker("icount"):
        return MANY_CPUS
    return item.path.stem if item.get_closest_marker("shares") else None


def rank(item):
    """Returns the sort key: items with lower ranks start first, since they take longest."""
    if group_of(item) == MANY_CPUS:
        return 0
    return 1 if item.get_closest_marker("icount") else 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    words = config.getoption("words")
    if words.strip():
        kept = selected(items, words)
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=rank)


@pytest.fixture(name="terminal")
def one_terminal():
    """A terminal of 80 columns at which the shell waits for a line."""
    from terminal import Terminal  # pylint: disable=import-outside-toplevel  # only guests need its packages
    with Terminal() as terminal:
        terminal.wait_for(r"^#")
        yield terminal


def pytest_runtest_setup(item):
    guest.cpus = cpus_of(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    # With --ask-meanwhile a loop runs in the guest. Scripts do not expect this loop, so only lost
    # objects count as failures.
    if guest.ask_meanwhile and call.excinfo and not call.excinfo.errisinstance(unreached.Lost):
        call.excinfo = None
    report = (yield).get_result()
    if report.failed:
        words = shlex.quote(full_name(report.nodeid).replace("$", "$$"))
        report.sections.append(("repeat", f"repeat: make test TESTS={words}"))


class Reporter:
    """Runs in the process that prints the results of all other processes: removes groups from the names of tests, shows how many tests have ended
    instead of a dot for each of them, and prints the last line."""

    def __init__(self):
        self.shown = None

    def begin(self, config, total):
        if not self.shown:
            self.shown = Progress("tests", config.pluginmanager.get_plugin("terminalreporter")._tw._file)  # pylint: disable=protected-access
            self.shown.__enter__()
            self.shown.phase("done", total)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.begin(node.config, len(ids))

    def pytest_collection_finish(self, session):
        if session.items:
            self.begin(session.config, len(session.items))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_report_teststatus(self):
        result = yield
        category, letter, word = result.get_result()
        result.force_result((category, "" if letter == "." else letter, word))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        report.nodeid = full_name(report.nodeid)
        if self.shown and report.when == "teardown":
            self.shown.step()

    def pytest_sessionfinish(self):
        if self.shown:
            self.shown.close()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config):
        stats = config.pluginmanager.get_plugin("terminalreporter").stats
        passed, failed, errors, skipped = (len(stats.get(key, ())) for key in ("passed", "failed", "error", "skipped"))
        print(f"{passed} passed, {failed + errors} failed" + (f", {skipped} skipped" if skipped else ""))
