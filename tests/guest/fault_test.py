"""Fault injection: the command `failnext` of #debug/alloc, and system calls in which each allocation fails in turn."""
import re

import pytest

from guest import dumps_in, guest, sections_of

pytestmark = [pytest.mark.cpus(1), pytest.mark.shares]


@pytest.fixture(scope="module")
def sections():
    """Runs one script with several sections. Returns ({section: standard output}, {section: standard error})."""
    result = guest("""
section() { echo "== $1"; echo "== $1" >&2; }
try() { printf "$1" > '#debug/alloc' && echo fine; }
section next; try 'failnext 1\\nchurn debug_64 10\\n'; try 'churn debug_64 10\\n'
section after; try 'failnext 1 after=7\\nchurn debug_64 10\\n'
section zero; try 'failnext 5\\nfailnext 0\\nchurn debug_64 10\\n'
section others; sh -c 'echo failnext 1000000 > #debug/alloc; exit 0'; try 'churn debug_64 10\\n'
section traced; echo start > #mem/kmemtrace/debug_64; try 'failnext 1 after=5\\nchurn debug_64 10\\n'
cat #mem/kmemtrace/debug_64; printf 'stop\\nreset\\n' > #mem/kmemtrace/debug_64; grep -w debug_64 #mem/slab_stats
section bad
for text in failnext 'failnext x' 'failnext -1' 'failnext 1 2' 'failnext 1 after=' 'failnext 1 after=x' 'failnext 1 after=1 x' 'failnext 99999999999'; do
  try "$text\\n"
done
try 'failnext 1\\nnonsense\\n'; try 'churn debug_64 10\\n'
""")
    return sections_of(result.stdout), sections_of(result.stderr)


def test_the_next_one_fails_and_no_other(sections):
    out, err = sections
    assert "out of memory after 0 of 10" in err["next"]
    assert out["next"] == "fine\n"


def test_after_some(sections):
    out, err = sections
    assert "out of memory after 7 of 10" in err["after"]


def test_zero_ends_it(sections):
    out, err = sections
    assert (out["zero"], err["zero"]) == ("fine\n", "")


def test_other_processes_are_not_hit(sections):
    out, err = sections
    assert out["others"] == "fine\n"
    assert err["others"] in ("", "Killed\n")  # the other process may be killed at a page fault


def test_what_fails_is_counted_and_not_recorded(sections):
    out, _ = sections
    [dump] = dumps_in(out["traced"])
    assert (dump.counters["seen"], dump.counters["freed"], dump.counters["live"]) == (5, 5, 0)
    assert out["traced"].splitlines()[-1].split()[11] == "3"  # column FAILED: one failure in each of the sections next, after and traced


def test_bad_orders(sections):
    out, err = sections
    assert out["bad"] == "fine\n"
    assert err["bad"].count("Invalid argument") == 9


def check(*words, options=()):
    result = guest("failtest " + " ".join(words), "--timeout", "300", *options)
    assert re.search(r"\A\d+ operations, 0 failures\n\Z", result.stdout), result
    assert (result.status, result.stderr) == (0, ""), result


@pytest.mark.cpus(4)
def test_every_system_call_survives_each_failure():
    check()


@pytest.mark.cpus(4)
def test_the_host_s_folder_too(tmp_path):
    check("host", options=("--share", str(tmp_path)))
