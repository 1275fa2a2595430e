"""make leaktest: what leaks is found and named, what does not leak is not accused."""
import os
import re
import subprocess

import pytest

from guest import BUILD, ROOT, leaktest

pytestmark = pytest.mark.cpus(1)


def check_clean(command):
    result = leaktest(command)
    assert result.status == 0, result
    assert result.stdout.endswith("\nno leak\n"), result


@pytest.mark.cpus(4)
def test_leak_is_found_and_named():
    result = leaktest("leakdemo leak 3")
    assert result.status == 1, result
    assert re.search(r"LEAKED: 2880 bytes from 1 stacks", result.stdout)
    assert re.search(r"2880 bytes in 15 allocations of leaky from stack\n(.*\n)*?"
                                    r" +leaky_open\+0x[0-9a-f]+  kern/drivers/dev/debug\.cc:\d+\n", result.stdout)


def test_the_line_named_is_the_allocation():
    result = leaktest("leakdemo leak 1", "--repeat", "2")
    place = next(line.split()[-1] for line in result.stdout.splitlines() if "leaky_open" in line)
    file, _, line = place.rpartition(":")
    assert "kmem_cache_alloc" in (ROOT / file).read_text().splitlines()[int(line) - 1]


def test_clean():
    check_clean("leakdemo clean")


def test_ls():
    check_clean("ls /")


@pytest.mark.cpus(4)
def test_pipeline():
    check_clean("ls -l / | grep bin | wc -l")


@pytest.mark.cpus(4)
def test_loop_that_forks():
    check_clean("i=0; while [ $i -lt 10 ]; do (exit 0); cat /etc/profile > /tmp/x; i=$((i + 1)); done; rm /tmp/x")


def test_path_errors():
    check_clean("ls /none /bin/none/x '#none' '#mem/none' /etc/profile/x; true")


@pytest.mark.cpus(4)
def test_killed_and_failed_programs():
    check_clean("sleep 100 & kill $!; wait; none-such; sh -c 'kill -9 $$'; true")


def test_files():
    check_clean("mkdir /tmp/d && echo x > /tmp/d/a && cp /tmp/d/a /tmp/d/b && mv /tmp/d/b /tmp/d/c && rm -r /tmp/d")


def test_what_happens_once_is_not_a_leak():
    """A file that stays is there once, not once for each run."""
    result = leaktest("[ -e /tmp/third ] && exit; [ -e /tmp/second ] && : > /tmp/third; : > /tmp/second")
    assert result.status == 0, result
    assert "not repeated (not counted)" in result.stdout


def test_what_stays_from_each_run_is_a_leak():
    result = leaktest(": > /tmp/file.$$")
    assert result.status == 1, result
    assert " of tmp_node from stack" in result.stdout


def test_status_of_the_command_is_shown_not_judged():
    result = leaktest("exit 7", "--repeat", "2")
    assert result.status == 0, result
    assert "exit status: 7" in result.stdout


def test_what_is_not_known_is_not_clean():
    """Allocations that never end: the caches do not come to rest."""
    result = leaktest('sh -c "while :; do echo x > /tmp/y; rm /tmp/y; done" & true', "--repeat", "1")
    assert result.status in (1, 2), result


def make(command):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", "-s", "-C", str(ROOT), f"BASE={os.path.relpath(BUILD, ROOT)}", "leaktest",
                           f"CMD={command}"], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.cpus(4)
def test_make():
    run = make("leakdemo leak 3; echo 'done'")
    assert run.returncode == 1, run.stderr
    assert "leaky_open" in run.stdout
    assert (BUILD / "leaktest" / "report.txt").read_text() == run.stdout


@pytest.mark.cpus(4)
def test_make_gives_the_command_as_it_was_typed():
    """What make would take for variables of its own, quotes, and more than one line."""
    command = """i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done\necho "<$i> '$(echo a b)' $$" | sed 's/[0-9]*$/pid/'; exit $i"""
    run = make(command)
    assert run.returncode == 0, run.stderr
    assert "<3> 'a b' pid\n" in run.stderr
    assert "exit status: 3\n" in run.stdout


@pytest.mark.parametrize("bug, command, cache, place", [
    ("pipe_close", "ls / | cat", "pipe_buffer", r"\w*pipe\w*\+0x[0-9a-f]+  kern/drivers/dev/pipe\.cc"),
    ("walk_error", "ls /etc/nothing", "chan", r"\w+::walk\+0x[0-9a-f]+  kern/drivers/dev/root\.cc"),
    ("exit_files", "true", "fd_table", r"fd_table_copy\+0x[0-9a-f]+  kern/src/ns/fd_table\.cc"),
], ids=["pipe_close", "walk_error", "exit_files"])
def test_a_planted_bug_is_found_and_named(bug, command, cache, place):
    """Each of kern/include/core/planted.h."""
    result = leaktest(command, "--variant", "break", "--cmdline", f"break={bug}")
    assert result.status == 1, result
    assert re.search(rf"of {cache} from stack\n(.*\n)*? +{place}:\d+\n", result.stdout), result


def test_planted_bugs_sleep():
    result = leaktest("ls / | cat; ls /etc/nothing", "--variant", "break")
    assert result.status == 0, result
