"""Unreachable objects in the guests of tests: only planted ones are allowed.

Process 1 of each guest searches when the script has ended (scripts/guest --unreachable). With
`pytest --ask-meanwhile FILE` a loop in each guest also reads #mem/unreachable all the time. Then
nothing else is tested, since scripts do not expect that, and FILE gets the number of reports
(tests/conftest.py; unreachable_test.py runs it).
"""
import re

from stele.leak_unreachable import parse_unreachable

FIRST = re.compile(r"^unreachable objects (\d+) bytes (\d+) heads (\d+) live (\d+) looks (\d+) returned (\d+) stopped_us (\d+)$", re.M)
RETURNED = re.compile(r"^returned 0x[0-9a-f]+ of (\S+)$", re.M)
SCRIPT_ENDED = re.compile(r"^status \d+\n", re.M)
NO_MEMORY = "unreachable: Out of memory"  # from process 1 if a script has left no memory
# Objects that scripts plant by commands to the device #debug: nothing else uses the first three;
# kmalloc may be of any size, and a kernel stack consists of pages.
PLANTED = {"debug_64", "debug_1024", "leaky"}
PLANTING = re.compile(r"(?:leak|cache|churn) (\w+)")
# Not a child of the script's shell, which may wait for all of its own. Its output is on COM3, among
# the script's errors.
ASK_MEANWHILE = """(
(while :; do cat '#mem/unreachable' > '#uart/2'; sleep 0.05; done) < '#null/null' > '#null/null' 2>&1 &
)
"""


class Lost(Exception):
    """Something is unreachable that the test has not planted."""


def planted_in(script):
    """A pattern of the caches and arenas of which the script loses objects."""
    names = PLANTED | {*PLANTING.findall(script)}
    return "|".join(rf"kmalloc_\d+|{re.escape(name)}|page" if name in ("kmalloc", "kernel_stack") else re.escape(name) for name in names)


def check(report, lost):
    """Checks that a report lists only objects of caches and arenas whose names match `lost`, a
    pattern, and that no object was reached again."""
    looked = parse_unreachable(report)
    found = {head.name for head in looked.heads} | {*RETURNED.findall(report)}
    if not all(re.fullmatch(lost, name) for name in found):
        raise Lost(report)


def check_the_end(fourth_port, lost):
    """For a guest whose script came to an end."""
    ended = SCRIPT_ENDED.search(fourth_port)
    if not ended or NO_MEMORY in fourth_port:
        return
    report = fourth_port[ended.end():]
    if not FIRST.match(report):
        raise Lost(f"process 1 has not looked: {fourth_port}")
    check(report, lost)


def check_meanwhile(errors, lost):
    """The same for each report among a script's errors. Returns their number."""
    begins = [match.start() for match in FIRST.finditer(errors)]
    for begin, end in zip(begins, [*begins[1:], len(errors)]):
        check(errors[begin:end], lost)
    return len(begins)
