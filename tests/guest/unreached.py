"""What nobody can reach in the guests of tests: nothing but what a test plants.

Process 1 of each guest looks when the script has ended (scripts/guest --unreachable). `pytest --ask-meanwhile FILE` has a loop in each guest
that reads #mem/unreachable all the time besides; then nothing else is tested, since scripts do not expect that, and FILE gets how many
reports there were (tests/conftest.py; unreachable_test.py runs it).
"""
import re

from stele.leak_unreachable import parse_unreachable

FIRST = re.compile(r"^unreachable objects (\d+) bytes (\d+) heads (\d+) live (\d+) looks (\d+) returned (\d+) stopped_us (\d+)$", re.M)
RETURNED = re.compile(r"^returned 0x[0-9a-f]+ of (\S+)$", re.M)
SCRIPT_ENDED = re.compile(r"^status \d+\n", re.M)
NO_MEMORY = "unreachable: Out of memory"  # says process 1 where a script has left none
# What scripts plant by commands to the device #debug: nobody else has objects of the first three; kmalloc may be of any size, and a kernel
# stack is of pages.
PLANTED = {"debug_64", "debug_1024", "leaky"}
PLANTING = re.compile(r"(?:leak|cache|churn) (\w+)")
# Not a child of the script's shell, which may wait for all of its own. COM3 has it among the script's errors.
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
    """That one report lists only objects of caches and arenas with names like `lost`, a pattern, and that nothing else was reached again."""
    looked = parse_unreachable(report)
    found = {head.name for head in looked.heads} | {*RETURNED.findall(report)}
    if not all(re.fullmatch(lost, name) for name in found):
        raise Lost(report)


def check_the_end(fourth_port, lost):
    """Of a guest whose script came to an end."""
    ended = SCRIPT_ENDED.search(fourth_port)
    if not ended or NO_MEMORY in fourth_port:
        return
    report = fourth_port[ended.end():]
    if not FIRST.match(report):
        raise Lost(f"process 1 has not looked: {fourth_port}")
    check(report, lost)


def check_meanwhile(errors, lost):
    """The same for each report among a script's errors. How many there are."""
    begins = [match.start() for match in FIRST.finditer(errors)]
    for begin, end in zip(begins, [*begins[1:], len(errors)]):
        check(errors[begin:end], lost)
    return len(begins)
