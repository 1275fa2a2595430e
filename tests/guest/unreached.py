"""Checks for unreachable objects in the guests of all tests: only objects that the script has lost on purpose through #debug are allowed.

When a script has ended, process 1 of the guest searches for unreachable objects (scripts/guest --unreachable). With `pytest --ask-meanwhile
FILE`, a loop in each guest also reads #mem/unreachable while the script runs. Tests may fail because their scripts do not expect this loop. So with
this option, only unreachable objects count as a failure (tests/conftest.py). FILE gets the number of reports of each guest. unreachable_test.py runs
pytest with this option.
"""
import re

from stele.leak_unreachable import parse_unreachable

FIRST = re.compile(r"^unreachable objects (\d+) bytes (\d+) heads (\d+) live (\d+) looks (\d+) returned (\d+) stopped_us (\d+)$", re.M)
RETURNED = re.compile(r"^returned 0x[0-9a-f]+ of (\S+)$", re.M)
SCRIPT_ENDED = re.compile(r"^status \d+\n", re.M)
NO_MEMORY = "unreachable: Out of memory"  # process 1 prints this if a script has used up memory
# Caches whose objects scripts lose by commands to #debug. Nothing else uses the caches in PLANTED. A
# script may lose objects of further caches, which PLANTING finds in the script. An object that
# `leak kmalloc` loses may be in any cache of kmalloc; `leak kernel_stack` loses pages.
PLANTED = {"debug_64", "debug_1024", "leaky"}
PLANTING = re.compile(r"(?:leak|cache|churn) (\w+)")
# The loop is not a child of the script's shell, because this shell may wait for all of its children. The output of the loop goes to COM3, among the
# script's errors.
ASK_MEANWHILE = """(
(while :; do cat '#mem/unreachable' > '#uart/2'; sleep 0.05; done) < '#null/null' > '#null/null' 2>&1 &
)
"""


class Lost(Exception):
    """There are unreachable objects that the test did not plant."""


def planted_in(script):
    """Returns a pattern of the caches and arenas whose objects the script loses."""
    names = PLANTED | {*PLANTING.findall(script)}
    return "|".join(rf"kmalloc_\d+|{re.escape(name)}|page" if name in ("kmalloc", "kernel_stack") else re.escape(name) for name in names)


def check(report, lost):
    """Checks that a report lists only objects of caches and arenas whose names match the pattern `lost`. Also checks the objects that the
    report calls `returned`, which were reachable again at a later look."""
    looked = parse_unreachable(report)
    found = {head.name for head in looked.heads} | {*RETURNED.findall(report)}
    if not all(re.fullmatch(lost, name) for name in found):
        raise Lost(report)


def check_the_end(fourth_port, lost):
    """Checks the report of process 1 in the output of the fourth serial port, if the script has ended."""
    ended = SCRIPT_ENDED.search(fourth_port)
    if not ended or NO_MEMORY in fourth_port:
        return
    report = fourth_port[ended.end():]
    if not FIRST.match(report):
        raise Lost(f"process 1 has not looked: {fourth_port}")
    check(report, lost)


def check_meanwhile(errors, lost):
    """Checks the reports of the loop ASK_MEANWHILE, which are among the script's errors. Returns the number of reports."""
    begins = [match.start() for match in FIRST.finditer(errors)]
    for begin, end in zip(begins, [*begins[1:], len(errors)]):
        check(errors[begin:end], lost)
    return len(begins)
