"""Collects GoogleTest programs for pytest. tests/host/NAME_test.cc is the source of the program
build/host/NAME_test, and each case of the program is an item. The program runs once, with all
selected cases, when pytest runs the first of these items. So the cases share one process."""
import os
import re
import subprocess

import pytest

from guest import BUILD
from outcomes import Outcome, OutcomeItem

START = "[ RUN      ] "
RESULT = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)? \((\d+) ms\)$")
RESULTS = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


def pytest_collect_file(file_path, parent):
    if file_path.name.endswith("_test.cc") and file_path.parent.name == "host":
        return Program.from_parent(parent, path=file_path)
    return None


def cases_of(program):
    """Returns the names of a program's cases, SUITE.CASE. They are cached in the file PROGRAM.cases until the program is rebuilt."""
    kept = program.with_name(program.name + ".cases")
    if not kept.exists() or kept.stat().st_mtime_ns < program.stat().st_mtime_ns:
        listing = subprocess.run([program, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=True).stdout
        names, suite = [], ""
        for line in listing.splitlines():
            name = line.partition("#")[0].rstrip()
            if name.startswith("  "):
                names.append(suite + name.strip())
            elif name.endswith("."):
                suite = name
        # Several xdist processes may do this at once, so the file is replaced as a whole.
        new = program.with_name(f"{kept.name}.{os.getpid()}")
        new.write_text("".join(name + "\n" for name in names))
        new.rename(kept)
    return kept.read_text().split()


def outcomes_in(output, names, status):
    """Returns {case: Outcome} from the output of a program that was to run the cases `names`."""
    outcomes, running, lines = {}, None, []
    for line in output.splitlines():
        if START in line:
            running, lines = line.partition(START)[2], []
        elif running and (found := RESULT.search(line)) and found[2] == running:
            outcomes[running] = Outcome(RESULTS[found[1]], int(found[3]) / 1000, "\n".join(lines))
            running, lines = None, []
        else:
            lines.append(line)
    # If the program ended too early, the case that was running has failed; if none was running, the last case counts as failed.
    ended = f"the program ended with status {status}"
    failed = any(outcome.result == "failed" for outcome in outcomes.values())
    if running or (status != 0 and not failed):
        outcomes[running or names[-1]] = Outcome("failed", 0, "\n".join([*lines, ended]))
    did_not_run = Outcome("failed", 0, f"it did not run: {ended}" + (f" in {running}" if running else ""))
    return {name: outcomes.get(name, did_not_run) for name in names}


class Program(pytest.File):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.program = BUILD / "host" / self.path.stem
        self.outcomes = None
        self.add_marker(pytest.mark.shares)

    def collect(self):
        if not self.program.exists():
            raise self.CollectError(f"{self.program} has not been built")
        for name in cases_of(self.program):
            yield OutcomeItem.from_parent(self, name=name)

    def outcome(self, case):
        if self.outcomes is None:
            names = [item.name for item in self.session.items if item.parent is self]
            run = subprocess.run([self.program, "--gtest_color=no", "--gtest_filter=" + ":".join(names)], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            self.outcomes = outcomes_in(run.stdout, names, run.returncode)
        return self.outcomes[case.name]
