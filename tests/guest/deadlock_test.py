"""#mem/unreachable names tasks that wait for each other's sleeping locks in a circle."""
import re

import pytest

from guest import guest, sections_of

CIRCLE = re.compile(r"^(\d+) tasks wait for each other's locks\n((?:\t.*\n)*)", re.M)
TASK = re.compile(r"^\ttask (\d+) (\S+)(?: of pid (\d+))? waits for the lock (0x[0-9a-f]+) (\w+) of task (\d+)\n((?:\t\t.*\n)*)", re.M)


def circles_in(text):
    """Returns [(size, [(task, name, pid or None, lock, rank, owner, functions)])] of a report."""
    return [(int(match[1]), [(*task[:6], re.findall(r"^\t\t(.+)\+0x[0-9a-f]+ \[kernel\]$", task[6], re.M)) for task in TASK.findall(match[2])])
            for match in CIRCLE.finditer(text)]


def assert_circle(circle, pid, result):
    """Checks a circle that the command `deadlock N` of #debug/ctl made. One task of the circle belongs
    to the process `pid`, which wrote the command; the other tasks are kernel tasks."""
    size, tasks = circle
    assert len(tasks) == size and len({task for task, *_ in tasks}) == size and len({lock for _, _, _, lock, *_ in tasks}) == size, result
    for i, (_, name, process, _, rank, owner, functions) in enumerate(tasks):
        assert owner == tasks[(i + 1) % size][0], result  # the last task waits for the first task's lock
        assert rank == "kDeviceMutex", result
        assert [function for function in functions if function in ("Mutex::lock", "deadlock_dine")] == ["Mutex::lock", "deadlock_dine"], result
        assert (name, process, "sys_write" in functions) in (("deadlock", "", False), ("sh", pid, True)), result
    assert [process for _, _, process, *_ in tasks].count(pid) == 1, result


# A shell command that waits until {} tasks sleep in Mutex::lock: the tasks of the circles, and tasks
# that wait for a lock of a circle but are not part of the circle (`behind=`).
WAITING = "until [ $(grep -c 'Mutex::lock+' '#debug/stacks') = {} ]; do :; done\n"


@pytest.mark.parametrize("count", [pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)])
def test_circles_are_listed_once_each_with_their_stacks(count):
    result = guest(f"""
echo == before; cat '#mem/unreachable'
echo deadlock 2 > '#debug/ctl' & two=$!
echo deadlock 3 behind=40 > '#debug/ctl' & three=$!
{WAITING.format(45)}
kill -9 $two
echo == pids; echo $two $three
echo == circles; cat '#mem/unreachable'
echo == again; cat '#mem/unreachable'
echo 'leak debug_64 2' > '#debug/alloc'; echo confirm=2 > '#mem/unreachable'
echo == lost; cat '#mem/unreachable'
""")
    parts = sections_of(result.stdout)
    assert len(parts["before"].splitlines()) == 1, result
    two, three = parts["pids"].split()
    for name in ("circles", "again", "lost"):
        assert parts[name].splitlines()[1] == "deadlocks 2 tasks 5", result
        circles = {circle[0]: circle for circle in circles_in(parts[name])}
        assert circles.keys() == {2, 3} and len(circles_in(parts[name])) == 2, result
        assert_circle(circles[2], two, result)
        assert_circle(circles[3], three, result)
    for name, lost in (("circles", ""), ("lost", "128 bytes in 2 objects of debug_64")):
        rest = TASK.sub("", CIRCLE.sub("", parts[name]))
        assert re.findall(r"^\d+ bytes in .*", rest, re.M) == [lost] * bool(lost), result


def test_more_than_there_is_room_for():
    result = guest(f"""
echo deadlock 100 > '#debug/ctl' &
{WAITING.format(100)}
echo == large; cat '#mem/unreachable'
""")
    large = sections_of(result.stdout)["large"]
    [(size, tasks)] = circles_in(large)
    assert "\ndeadlocks 1 tasks 100\n" in large and (size, len(tasks)) == (100, 64) and large.endswith("\t… 36 more tasks\n"), result
    result = guest(f"""
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do echo deadlock 4 > '#debug/ctl' & done
{WAITING.format(80)}
echo == many; cat '#mem/unreachable'
""")
    many = sections_of(result.stdout)["many"]
    circles = circles_in(many)
    assert "\ndeadlocks 20 tasks 80\n" in many and many.endswith("\n\n… 4 more circles\n"), result
    assert [size for size, _ in circles] == [4] * 16 and all(len(tasks) == 4 for _, tasks in circles), result


@pytest.mark.cpus(1)
def test_what_is_written():
    words = ("deadlock", "deadlock 1", "deadlock 101", "deadlock 2x", "deadlock -2", "deadlock 2 behind", "deadlock 2 behind=", "deadlock 2 behind=101",
             "deadlock 2 behind=1 3", "deadlock behind=2")
    result = guest("".join(f"echo '{word}' > '#debug/ctl'\n" for word in words) + "cat '#mem/unreachable'")
    assert result.stderr.count("expected deadlock N [behind=M], N from 2 to 100, M up to 100") == len(words), result
    assert "deadlocks" not in result.stdout, result


@pytest.mark.cpus(1)
def test_where_the_order_of_locks_is_checked_there_is_none():
    result = guest("echo deadlock 2 > '#debug/ctl'", "--variant", "debug", log=False)
    assert result.status == 134 and re.search(r"mutex of rank \d+ taken while ranks 0x[0-9a-f]+ \(bits\) are held", result.stderr), result
