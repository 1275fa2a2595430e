"""Collects GoogleTest programs for pytest. Each program build/host/KIND-WORLD has the tests of several
files tests/host/NAME_test.cc, and each case is an item of its file. When pytest runs the first item
of a file, the program runs once, with all selected cases of this file. So the cases of a file share
one process, and no other file's cases run in it."""
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile

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
    """Returns {file: [case]} of a program. A file is a name without its folder, a case is SUITE.CASE. They are cached in the file
    PROGRAM.cases until the program is rebuilt."""
    kept = program.with_name(program.name + ".cases")
    if not kept.exists() or kept.stat().st_mtime_ns < program.stat().st_mtime_ns:
        with tempfile.NamedTemporaryFile(prefix="stele-", suffix=".json") as listing:
            subprocess.run([program, "--gtest_list_tests", f"--gtest_output=json:{listing.name}"], stdout=subprocess.DEVNULL, check=True)
            suites = json.load(listing)["testsuites"]
        cases = {}
        for suite in suites:
            for case in suite["testsuite"]:
                cases.setdefault(pathlib.Path(case["file"]).name, []).append(f"{suite['name']}.{case['name']}")
        # Several xdist processes may do this at once, so the file is replaced as a whole.
        new = program.with_name(f"{kept.name}.{os.getpid()}")
        new.write_text(json.dumps(cases))
        new.rename(kept)
    return json.loads(kept.read_text())


@functools.cache
def programs():
    """Returns {file: (program, [case])} of all programs that make has built."""
    folder = BUILD / "host"
    names = (folder / "programs").read_text().split()
    return {file: (folder / name, cases) for name in names for file, cases in cases_of(folder / name).items()}


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
    """A file with cases, and the program that has them."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.program, self.outcomes = None, None
        self.add_marker(pytest.mark.shares)

    def collect(self):
        try:
            self.program, cases = programs()[self.path.name]
        except (KeyError, FileNotFoundError):
            raise self.CollectError(f"{self.path.name} is in no program: `make host-tests` builds them") from None
        for name in cases:
            yield OutcomeItem.from_parent(self, name=name)

    def outcome(self, case):
        if self.outcomes is None:
            names = [item.name for item in self.session.items if item.parent is self]
            run = subprocess.run([self.program, "--gtest_color=no", "--gtest_filter=" + ":".join(names)], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            self.outcomes = outcomes_in(run.stdout, names, run.returncode)
        return self.outcomes[case.name]
