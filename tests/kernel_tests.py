"""The kernel's own tests for pytest: each KTEST(name) in kern/tests/*_test.cc is an item.

Each item belongs to one variant of the kernel:

    debug     checks lock order, among other things (configs/debug.config). Most tests run in this variant.
    sanitize  has sanitizers (configs/sanitize.config). Most tests also run in this variant, as the
              items NAME[sanitize], which are long tests. The tests of the sanitizers run only here.

When pytest runs the first item of a variant, it boots that kernel, and the kernel runs all selected
tests of the variant. The kernel prints the results on the console, in the format of the Test Anything Protocol.
"""
import re
import subprocess

import pytest

from guest import ROOT
from outcomes import Outcome, OutcomeItem

USUAL, SANITIZE = "debug", "sanitize"  # kernel variants
CPUS = 4
OF_SANITIZERS = "sanitizer_test.cc"
OF_DEBUG = ("irq_off_test.cc", "coverage_test.cc")  # tests that need CONFIG_IRQ_OFF_TRACE or CONFIG_COVERAGE
KTEST = re.compile(r"^KTEST\((\w+)\)", re.M)
# A test's result on the console. Other output never interrupts this line.
RESULT = re.compile(r"^(ok|not ok) \d+ - (\w+) # (\d+) ms\r?$")
COMMAND_LINE = 400  # maximum bytes of test names on the kernel's command line (kern/core/boot.h)
TAIL = 60  # number of last console lines to show if the kernel did not end
SECONDS = {USUAL: 600, SANITIZE: 2400}


def pytest_collect_file(file_path, parent):
    if file_path.name.endswith("_test.cc") and file_path.parent.parent.name == "kern":
        return KernelTests.from_parent(parent, path=file_path)
    return None


def outcomes_in(console, status):
    """Returns ({test: Outcome} from the console's output, the Outcome for tests that are not in the dictionary). If the guest's exit status is
    neither 0 nor 1, the last test with a result counts as failed."""
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
    """A file with tests. The tests of all files run in one guest for each variant, so their outcomes are stored in pytest's session."""

    def collect(self):
        of_sanitizers = self.path.name == OF_SANITIZERS
        for name in KTEST.findall(self.path.read_text()):
            if not of_sanitizers:
                yield self.test(name, name, USUAL)
            if self.path.name not in OF_DEBUG:
                yield self.test(f"{name}[{SANITIZE}]", name, SANITIZE, pytest.mark.long)

    def test(self, name, ktest, variant, *marks):
        item = OutcomeItem.from_parent(self, name=name)
        item.ktest, item.variant = ktest, variant
        for mark in (pytest.mark.cpus(CPUS), *marks):
            item.add_marker(mark)
        return item

    def outcome(self, test):
        session = self.session
        session.kernel_outcomes = getattr(session, "kernel_outcomes", {})
        if test.variant not in session.kernel_outcomes:
            names = [item.ktest for item in session.items if isinstance(item.parent, KernelTests) and item.variant == test.variant]
            words = ",".join(names)
            if len(words) > COMMAND_LINE:
                words = ""
            run = subprocess.run([ROOT / "scripts/guest", "--no-build", "--variant", test.variant, "--timeout", str(SECONDS[test.variant]),
                                  "--smp", str(CPUS), f"--ktest={words}"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
            session.kernel_outcomes[test.variant] = outcomes_in(run.stderr, run.returncode)
        outcomes, missing = session.kernel_outcomes[test.variant]
        return outcomes.get(test.ktest, missing)
