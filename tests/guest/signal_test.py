"""Shares of time, limits of memory and files, and the end of greedy processes. The loads are those of the program sigtest (tests/programs/sigtest)."""
import re

import pytest

from guest import guest, kernel_test


@pytest.mark.icount
def test_sleeping_before_each_tick_takes_no_more_than_a_share_and_is_charged():
    result = guest("exec sigtest share", "--icount")
    work, steady, sleeper = (int(number) for number in re.findall(r"\d+", result.stdout))
    # Slices of 1 and of 3 ticks. All time of the one CPU is charged to the one that used it.
    assert 20 <= work <= 50 and abs(work - steady) <= 3, result
    assert 90 <= steady + sleeper <= 101, result


@pytest.mark.icount
def test_a_user_gets_a_part_of_the_memory_for_threads():
    script = """mkfifo /tmp/hold; chmod 644 /tmp/hold; proctest as 65534 sigtest crowd 6 < /tmp/hold > /tmp/out & exec 3> /tmp/hold
until [ -s /tmp/out ]; do sleep 0.1; done; cat /tmp/out; ls -d /tmp; exec 3>&-; wait $!; echo $?"""
    result = guest(script, "--icount", "--mem", "128M", "--timeout", "100", log=False)
    threads = re.fullmatch(r"(\d+) threads\n/tmp\n0\n", result.stdout)
    # A thread takes 20 KiB and more of the kernel's memory. The user gets a quarter of the memory.
    assert threads and 500 < int(threads.group(1)) < 128 * 1024 / 4 / 20, result
    assert "out of memory" not in result.stderr, result


def test_a_user_leaves_room_in_tmp_and_pseudo_terminals_for_root():
    script = """mkdir -m 777 /tmp/u; proctest as 65534 dd if=/dev/zero of=/tmp/u/x bs=64k 2>&1 | grep -o 'No space.*'
echo root > /tmp/y; cat /tmp/y; rm /tmp/u/x
mkfifo /tmp/hold /tmp/out; proctest as 65534 sigtest ptys < /tmp/hold > /tmp/out & exec 3> /tmp/hold
read line < /tmp/out; echo "$line"; sigtest ptys < /dev/null; exec 3>&-; wait"""
    result = guest(script, "--mem", "128M")
    assert result.stdout == "No space left on device\nroot\n256 pseudo terminals\n768 pseudo terminals\n", result


@pytest.mark.parametrize("kind", ("maps", "texts", "reads"))
def test_a_user_gets_a_part_of_the_memory_for_files_and_buffers(kind):
    """A user takes memory of the kernel by one kind of call: maps of files whose descriptors are closed, texts that are made when a file is opened,
    and reads that sleep."""
    script = f"""mkdir -m 777 /tmp/u; mkfifo /tmp/hold /tmp/out; cd /tmp/u; proctest as 65534 sigtest hoard {kind} < /tmp/hold > /tmp/out & exec 3> /tmp/hold
read line < /tmp/out; echo "$line"; head -n 2 /proc/meminfo | tr -dc '0-9\\n'; exec 3>&-; wait"""
    result = guest(script, "--mem", "128M", "--timeout", "200", log=False)
    number, said, total, free = result.stdout.split()
    assert said == kind and int(number) > 200, result
    assert int(free) > int(total) * 0.6, result
    assert "out of memory" not in result.stderr, result


@pytest.mark.icount
def test_the_greedy_user_loses_processes_and_no_other_user_does():
    script = "mkfifo /tmp/root; sigtest greed 1 16 > /tmp/root & exec 3< /tmp/root; read filled <&3; proctest as 65534 sigtest greed 30 4; wait $!; cat <&3"
    result = guest(script, "--icount", "--mem", "96M", "--timeout", "400", log=False)
    others, root = re.findall(r"(\d+) of (\d+)", result.stdout)
    assert root == ("1", "1"), result  # root's process is the largest of all
    assert 5 < int(others[0]) < 30, result
    assert "is killed" in result.stderr, result


@pytest.mark.long
@pytest.mark.cpus(4)
def test_no_wake_up_of_a_million_is_lost():
    """Runs the kernel's own test poll_loses_no_wakeup with a million passes. In this test, pollers on four CPUs hand tokens to each other."""
    assert kernel_test("poll_loses", "--timeout", "900", "--cmdline", "poll_passes=1000000").status == 0
