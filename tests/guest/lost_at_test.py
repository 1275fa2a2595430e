"""Tests scripts/lost-at, which finds the instruction that took the last pointer to an object, and the recorded runs on which it is based
(scripts/guest --record and --replay)."""

import pytest

from debugged import gdb
from guest import tool

pytestmark = [pytest.mark.cpus(1), pytest.mark.icount]


def lost_at(command, *options):
    return tool("lost-at", "--no-build", *options, command)


def section(report, begin):
    """Returns the lines of a report from the one that begins with `begin` up to the next line of the same depth."""
    lines = report.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(begin))
    depth = len(begin) - len(begin.lstrip())
    end = next((number for number in range(start + 1, len(lines)) if lines[number][:depth + 1].strip()), len(lines))
    return lines[start:end]


def test_a_recorded_run_repeats(tmp_path):
    """A replay prints what the run printed, and the memory of a moment is that of the run."""
    script = "echo hello; leakdemo leak 1; cat /proc/uptime '#mem/unreachable'; exit 3"
    recorded = tool("guest", "--no-build", "--mem", "64M", "--record", str(tmp_path / "run"), "-c", script)
    assert recorded.status == 3 and recorded.stdout.startswith("hello\n"), recorded
    replayed = tool("guest", "--no-build", "--mem", "64M", "--replay", str(tmp_path / "run"), "-c", script)
    assert (replayed.status, replayed.stdout) == (3, recorded.stdout)
    end = int(recorded.stderr.rpartition("power off after ")[2].split()[0])
    until = tool("guest", "--no-build", "--mem", "64M", "--replay", str(tmp_path / "run"), "--until", str(end - 1000), "--core", str(tmp_path / "core"), "-c", script)
    assert (until.status, until.stdout, until.stderr) == (0, "", "")
    address = recorded.stdout.split("\t0x")[1].split()[0]
    assert f"0x{address} size 192" in gdb(tmp_path / "core", "kmem-unreachable")["kmem-unreachable"]


@pytest.mark.parametrize("options, said", (
    (["--record", "a", "--replay", "b"], "exclude each other"), (["--replay", "a", "--share", "/"], "exclude each other"),
    (["--until", "5"], "--until needs --replay, and --core or --debug"), (["--replay", "a", "--until", "5"], "--until needs --replay, and --core or --debug")))
def test_options_that_do_not_fit(options, said):
    result = tool("guest", "--no-build", *options, "-c", "true")
    assert (result.status, result.stdout) == (125, "") and said in result.stderr and result.stderr.count("\n") == 1


def test_a_moment_after_the_end(tmp_path):
    assert tool("guest", "--no-build", "--mem", "64M", "--record", str(tmp_path / "run"), "-c", "true").status == 0
    result = tool("guest", "--no-build", "--mem", "64M", "--replay", str(tmp_path / "run"), "--until", "1" + "0" * 12, "--core", str(tmp_path / "core"), "-c", "true")
    assert (result.status, result.stdout, result.stderr) == (125, "", f"guest: the guest ended before it had executed 1{'0' * 12} instructions\n")
    assert not (tmp_path / "core").exists()


def test_nothing_is_lost():
    result = lost_at("ls / | cat; leakdemo clean; exit 7")
    assert (result.status, result.stdout) == (0, "nothing is lost: a pointer leads to every object\n"), result
    assert "bin" in result.stderr


@pytest.mark.parametrize("command, said", (("no-such-command", "was not found (status 127)"), ("kill -9 $$", "was killed by SIGKILL (status 137)")))
def test_a_command_that_does_nothing_is_not_clean(command, said):
    result = lost_at(command)
    assert (result.status, result.stdout) == (2, f"nothing is lost, but the command {said}\n"), result


@pytest.mark.long  # leak_test.py has the same object, found by the leak test
def test_an_object_lost_with_its_holder():
    """A device forgets an object: the last pointer is in the channel, which is freed."""
    result = lost_at("leakdemo leak 2")
    assert result.status == 1, result
    assert result.stdout.startswith("LOST: 384 bytes in 2 objects of leaky; about the newest, 0x"), result
    lost = section(result.stdout, "  lost at instruction")
    assert "by task " in lost[0] and "leakdemo, pid " in lost[0]
    assert "Chan::destroy+0x" in lost[1] and "kern/ns/chan.cc:" in lost[1]
    assert lost[2].strip() == "chan_cache.destroy(chan);"
    assert any("the last pointer was in Chan 0x" in line and line.endswith(".state") for line in lost)
    allocated = section(result.stdout, "  allocated at")
    assert "leaky_open+0x" in allocated[1] and "kmem_cache_alloc(leaky_cache" in allocated[2]


# The line of each of these bugs takes a reference that nobody puts.
@pytest.mark.long
@pytest.mark.parametrize("bug, command, function, source", (
    ("walk_error", "ls /etc/nothing", "Walk::step", "kWalkError"),
    ("exec_format", "printf x > /tmp/x; chmod 755 /tmp/x; /tmp/x; true", "program_load", "kExecFormat")))
def test_a_reference_that_is_not_put(bug, command, function, source):
    result = lost_at(command, "--variant", "debug", "--cmdline", f"break={bug}")
    assert result.status == 1 and " of chan, 0x" in result.stdout, result
    lost = section(result.stdout, "  a reference to it was not put, and was lost at instruction")
    assert function in lost[1], result
    assert source in section(result.stdout, "  taken at")[2]


@pytest.mark.long
def test_a_buffer_of_a_pipe():
    result = lost_at("ls / | cat", "--variant", "debug", "--cmdline", "break=pipe_close")
    assert result.status == 1 and result.stdout.startswith("LOST: 8192 bytes in 1 object of pipe_buffer, 0x"), result
    lost = section(result.stdout, "  lost at instruction")
    assert "close_end kern/drivers/dev/pipe.cc" in lost[1] and "pipe.ring" in lost[2] and any("the last pointer was in Pipe 0x" in line and line.endswith(".ring") for line in lost), result
