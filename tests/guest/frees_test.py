"""Traces that count, for each stack that allocated, the stacks that freed its objects: `start frees`."""
import re

import pytest

from guest import dumps_in, guest, sections_of

pytestmark = [pytest.mark.cpus(2), pytest.mark.shares]


@pytest.fixture(scope="module")
def section():
    """Runs one script in a guest. Returns {section of the script: output}."""
    result = guest("""
ctl='#mem/kmemtrace/ctl'
t='#mem/kmemtrace/debug_64'
section() { echo "== $1"; }
echo 'start frees' > "$t"
section none; echo 'leak debug_64 100' > #debug/alloc; cat "$t"
section some; echo 'free debug_64 60' > #debug/alloc; echo sweep > "$ctl"; cat "$t"
section stopped; echo stop > "$t"; echo 'free debug_64 30' > #debug/alloc; echo sweep > "$ctl"; echo sweep > "$ctl"; cat "$t"
section ctl; grep ' debug_64 ' "$ctl"
section without; echo start > "$t"; cat "$t"; echo 'free debug_64 10' > #debug/alloc; printf 'stop\nreset\n' > "$t"
section load
echo 'start frees' > "$ctl"
i=0; while [ $i -lt 4 ]; do (j=0; while [ $j -lt 5 ]; do ls / | cat > /dev/null; echo x > /tmp/f$i; rm /tmp/f$i; j=$((j+1)); done) & i=$((i+1)); done
i=0; while [ $i -lt 5 ]; do cat '#mem/kmemtrace/chan' > /dev/null; echo sweep > "$ctl"; i=$((i+1)); done
wait
exec 5< /etc/passwd
echo stop > "$ctl"
cat '#mem/kmemtrace/chan'
exec 5<&-
echo reset > "$ctl"
section refs; echo 'start frees' > '#mem/kmemtrace/ref.chan'; ls / | cat > /dev/null; exec 5< /etc/passwd; exec 6< /etc/passwd; exec 6<&-
cat '#mem/kmemtrace/ref.chan'; exec 5<&-
section end; printf 'stop\nreset\n' > "$ctl"; cat "$ctl"
""", "--timeout", "120")
    assert (result.status, result.stderr) == (0, ""), result
    return sections_of(result.stdout)


def only_group(text):
    [dump] = dumps_in(text)
    assert (dump.broken_identities(), dump.lost()) == ([], {}), text
    [group] = dump.groups
    return dump, group


def freed(group):
    """Returns [(number of frees, the functions of the stack that freed)]."""
    return [(frees.number, [frame.split("+")[0] for frame in frees.frames]) for frees in group.frees]


def test_nobody_frees(section):
    assert "\tfreed none\n" in section["none"]
    assert only_group(section["none"])[1].frees == []


def test_the_stack_that_frees_is_named_and_counted(section):
    """Finds a free that is not counted, or counted for the wrong stack, and stacks that a sweep has forgotten."""
    _, group = only_group(section["some"])
    assert group.objects == 40
    [(number, functions)] = freed(group)
    assert number == 60
    assert not any(function.startswith(("kmem_", "slab_")) for function in functions), functions
    assert functions[-1] == "system_call_entry" and "sys_write" in functions, functions


def test_frees_count_after_a_stop(section):
    _, group = only_group(section["stopped"])
    assert (group.objects, sum(number for number, _ in freed(group))) == (10, 90)


def test_the_state_says_frees(section):
    assert section["ctl"].rstrip().endswith(" frees 1"), section["ctl"]
    assert " frees 1\n" in section["some"]


def test_a_start_without_frees_shows_none(section):
    dump, group = only_group(section["without"])
    assert ("frees" in dump.header, group.frees, "freed none" in section["without"]) == (False, [], False)


def test_under_load_each_free_of_a_shown_stack_has_frames(section):
    [dump] = dumps_in(section["load"])
    assert (dump.broken_identities(), dump.lost()) == ([], {})
    counted = [frees for group in dump.groups for frees in group.frees]
    assert counted and all(frees.frames for frees in counted), section["load"]
    assert sum(frees.number for frees in counted) <= dump.counters["freed"]


def test_references_are_put(section):
    assert re.search(r"^\tput \d+ by stack$", section["refs"], re.MULTILINE), section["refs"]


def test_all_memory_comes_back(section):
    assert re.match(r"limit \d+ used 0 stacks 0 contexts 0 ", section["end"]), section["end"]
