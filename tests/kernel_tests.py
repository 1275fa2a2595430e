"""The kernel's own tests for pytest: each KTEST(name) in kern/tests/*_test.cc is an item.

One boot of the kernel that checks the order of locks (configs/checked.config) runs all that are selected, when the first of them is
to run. Results come from the Test Anything Protocol on the console.
"""
import re
import subprocess

import pytest

from guest import ROOT
from outcomes import Outcome, OutcomeItem

VARIANT = "checked"
KTEST = re.compile(r"^KTEST\((\w+)\)", re.M)
# A line of the log may come in the middle of the console's other output, never in the middle of a line.
RESULT = re.compile(r"^(ok|not ok) \d+ - (\w+) # (\d+) ms\r?$")
COMMAND_LINE = 400  # bytes of names that surely fit into the kernel's command line (kern/include/core/boot.h)
TAIL = 60  # lines of the console that are shown when the kernel has not come to its end
SECONDS = 600


def pytest_collect_file(file_path, parent):
    if file_path.name.endswith("_test.cc") and file_path.parent.parent.name == "kern":
        return KernelTests.from_parent(parent, path=file_path)
    return None


def outcomes_in(console, status):
    """({test: Outcome} of what stands on the console, the Outcome of a test that does not). It ends with 0 or 1, or the last one that
    has come to an end has failed."""
    outcomes, since = {}, []
    lines = console.split("\n")
    for line in lines:
        if found := RESULT.match(line):
            outcomes[found[2]] = Outcome("passed" if found[1] == "ok" else "failed", int(found[3]) / 1000, "\n".join(since))
            since = []
        else:
            since.append(line)
    tail = f"the guest ended with status {status}; the console's last lines:\n" + "\n".join(lines[-TAIL:])
    if outcomes and status not in (0, 1):
        outcomes[list(outcomes)[-1]] = Outcome("failed", 0, tail)
    return outcomes, Outcome("failed", 0, "no result of this test: " + tail)


class KernelTests(pytest.File):
    """A file with tests. All of the session run together, so what has come out of it belongs to the session."""

    def collect(self):
        for name in KTEST.findall(self.path.read_text()):
            yield OutcomeItem.from_parent(self, name=name)

    def outcome(self, test):
        session = self.session
        if not hasattr(session, "kernel_outcomes"):
            names = [item.name for item in session.items if isinstance(item.parent, KernelTests)]
            words = ",".join(names)
            if len(words) > COMMAND_LINE:
                words = ""
            run = subprocess.run([ROOT / "scripts/guest", "--no-build", "--variant", VARIANT, "--timeout", str(SECONDS), f"--ktest={words}"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
            session.kernel_outcomes = outcomes_in(run.stderr, run.returncode)
        outcomes, missing = session.kernel_outcomes
        return outcomes.get(test.name, missing)
