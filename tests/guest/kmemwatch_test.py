"""kmemwatch names and traces caches that grow, but not caches that fill up once or vary with the
load. It runs as root and as a user."""
import re

import pytest

from guest import dumps_in, guest, sections_of
from watched import LOADS, accused_in, reports_in

# Under -icount, time in the guest depends only on executed instructions, so a busy host changes
# nothing.
pytestmark = [pytest.mark.icount, pytest.mark.cpus(1)]

# Windows of 0.1 s instead of 20 s: the first judgement comes after 2.4 s.
QUICK = "-i 0.02 -w 5"


def run(script):
    return guest(LOADS + script, "--icount", "--timeout", "600")


def test_a_leak_under_load_is_named_and_traced():
    result = run(f"""
load 100000; every 60000 'leakdemo leak 1'
kmemwatch -t -o depth=9 {QUICK} -T 4.5 > /tmp/out; status=$?; unload; wait 2> /dev/null
echo "== out"; cat /tmp/out; echo "== dump"; cat #mem/kmemtrace/leaky; echo "== ctl"; cat #mem/kmemtrace/ctl; exit $status""")
    assert (result.status, result.stderr) == (1, ""), result
    sections = sections_of(result.stdout)
    first, *_, last = reports_in(sections["out"])
    assert accused_in(sections["out"]) == {"leaky"}
    assert first[1] == last[1] == "1 grows"
    leak = last[2]["leaky"]
    assert leak.state == "grows, traced"
    assert 0 < leak.low <= leak.rate <= leak.high < 26
    assert leak.bytes == pytest.approx(192 * leak.rate, rel=0.02)
    assert leak.p <= 0.01
    [dump] = dumps_in(sections["dump"])
    assert "leaky_open+" in sections["dump"]
    assert " leakdemo" in sections["dump"]
    assert " depth 9 " in sections["dump"]
    assert dump.counters["live"] > 0 and dump.counters["untracked"] > 0
    assert sections["ctl"].count(" state ") == 1, "nothing else is traced"


@pytest.mark.long
def test_what_does_not_grow():
    """kmemwatch accuses none of three caches: one fills during the first third of the time, one fills ever more slowly, one fills and empties
    alternately. With -v the output shows that kmemwatch has judged."""
    result = run(f"""
load 100000
(i=0; while [ $((i += 1)) -le 10 ]; do echo 'leak debug_64 10' > #debug/alloc; usleep 80000; done) & loads="$loads $!"
(i=400; while [ $i -gt 0 ]; do echo "leak debug_1024 $i" > #debug/alloc; i=$((i * 2 / 3)); usleep 80000; done) & loads="$loads $!"
(while :; do i=0; while [ $((i += 1)) -le 10 ]; do echo 'leak kmalloc 18 size=600' > #debug/alloc; usleep 60000; done
  echo 'free kmalloc 180' > #debug/alloc; done) & loads="$loads $!"
kmemwatch -t -v {QUICK} -T 6; status=$?; unload; cat '#debug/alloc' >&2; cat #mem/kmemtrace/ctl | grep state >&2; exit $status""")
    assert result.status == 0, result
    assert accused_in(result.stdout) == set()
    assert len(reports_in(result.stdout)) > 5
    assert "state" not in result.stderr, "nothing is traced"
    assert re.search(r"(?m)^debug_64 100$", result.stderr), result


@pytest.mark.long
def test_growth_that_ends():
    """kmemwatch makes a report when it finds growth, and another report when the growth has ended. When SIGINT ends kmemwatch, nothing grows any
    more, so the exit status is 0."""
    result = run(f"""
(i=0; while [ $((i += 1)) -le 80 ]; do echo 'leak debug_64 3' > #debug/alloc; usleep 35000; done) &
kmemwatch {QUICK} & pid=$!; sleep 7; kill -INT $pid; wait $pid; echo "status $?" >&2""")
    assert result.stderr == "status 0\n", result
    (_, found, lines), *_, (_, ended, last) = reports_in(result.stdout)
    assert (found, lines["debug_64"].state) == ("1 grows", "grows")
    assert (ended, last["debug_64"].state, last["debug_64"].live) == ("nothing grows", "grew", 240)


@pytest.mark.parametrize("signal, before, status", (pytest.param("TERM", 4, 1, marks=pytest.mark.long), ("INT", 1, 2)))
def test_a_signal_gets_a_last_report(signal, before, status):
    result = run(f"""every 30000 "echo 'leak debug_64 1' > '#debug/alloc'"
kmemwatch {QUICK} & pid=$!; sleep {before}; kill -{signal} $pid; wait $pid; status=$?; unload; exit $status""")
    assert (result.status, result.stderr) == (status, ""), result
    assert reports_in(result.stdout)[-1][1] == ("1 grows" if status == 1 else "too early to judge")


@pytest.mark.long
def test_without_the_rights():
    """A user's kmemwatch says at once that it cannot start traces, and watches nevertheless. Root's kmemwatch does not change a trace that somebody
    else has started."""
    result = run(f"""
every 30000 "printf 'leak debug_64 1\\nleak debug_1024 1\\n' > '#debug/alloc'"
(proctest as 65534 kmemwatch -t {QUICK} -T 4 2> /tmp/err; echo "status $?") > /tmp/out &
watch=$!; echo start depth=3 > #mem/kmemtrace/debug_1024; echo stop > #mem/kmemtrace/debug_1024
(kmemwatch -t {QUICK} -T 4; echo "status $?") > /tmp/roots; wait $watch; unload
echo "== user"; cat /tmp/out; echo "== error"; cat /tmp/err; echo "== root"; cat /tmp/roots; echo "== ctl"; cat #mem/kmemtrace/ctl""")
    assert (result.status, result.stderr) == (0, ""), result
    sections = sections_of(result.stdout)
    assert re.fullmatch(r"kmemwatch: #mem/kmemtrace/ctl: Permission denied.*: no trace can be started; watching without traces\n", sections["error"]), result
    for who in ("user", "root"):
        output, status = sections[who].rsplit("status ", 1)
        assert (status, accused_in(output)) == ("1\n", {"debug_64", "debug_1024"}), result
        *_, (_, _, lines) = reports_in(output)
        assert lines["debug_1024"].state == "grows, trace stopped"
    assert lines["debug_64"].state == "grows, traced"
    assert re.search(r"debug_1024 state stopped .* depth 3 ", sections["ctl"])
    assert "debug_64 state running" in sections["ctl"]


def test_bad_arguments():
    bad = ["-x", "x", "-i", "-i 0", "-i x", "-i -1", "-i nan", "-i 1e9", "-w 0", "-w 1.5", "-T 0", "-T inf", "-a 0", "-a 0.6", "-a x", "-o depth=3",
           "-t -o depth=65", "-t -o sample=0", "-t -o sample=5G", "-t -o min=x", "-t -o pid=0", "-t -o size=3", "-t -o depth", "-t -o ''", "--nosuch"]
    result = run("\n".join(f"kmemwatch {arguments} > /tmp/out 2> /tmp/err; echo $? $(wc -c < /tmp/out) \"$(grep -c '^usage: kmemwatch' /tmp/err)\" "
                             "$(grep kmemwatch: /tmp/err)" for arguments in bad) + "\nkmemwatch -h")
    lines = result.stdout.splitlines()
    for arguments, line in zip(bad, lines):
        assert re.search(r"^2 0 1 kmemwatch: .", line), arguments
    assert lines[len(bad)].startswith("usage: kmemwatch [-h]")


def test_closed_output():
    result = run(f"kmemwatch -v {QUICK} -T 60 2> /tmp/err | head -n 1 > /dev/null; cat /tmp/err")
    assert result.stdout == "kmemwatch: the output cannot be written\n", result


@pytest.mark.long
def test_it_does_not_grow_itself():
    """kmemwatch does not leak: it has the same resident memory after two seconds and after four, with many judgements in between."""
    result = run("""kmemwatch -v -i 0.001 -w 2 -T 5 > /tmp/out & pid=$!; sleep 2; grep VmRSS /proc/$pid/status; sleep 2; grep VmRSS /proc/$pid/status
wait $pid; echo $?; grep -c after /tmp/out""")
    before, after, status, reports = result.stdout.splitlines()
    assert (before, status) == (after, "0"), result
    assert int(reports) > 50
