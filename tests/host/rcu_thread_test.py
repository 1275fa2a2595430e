"""One thread of QEMU is stopped, and QEMU still ends. A program with two more threads takes QEMU's place here."""
import contextlib
import pathlib
import select
import subprocess
import sys
import time

import pytest

from stele import rcu_thread

# The threads are busy for BUSY seconds; then they wait for work.
QEMU = """
import ctypes, os, sys, threading, time
names, started = sys.argv[1:], threading.Barrier(len(sys.argv))
def work(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
    started.wait()
    os.write(1, b"busy\\n")
    end = time.monotonic() + BUSY
    while time.monotonic() < end:
        ctypes.CDLL(None).getppid()
    os.write(1, b"idle\\n")
    threading.Event().wait()
for name in names:
    thread = threading.Thread(target=work, args=(name,), daemon=True)
    thread.start()
started.wait()
sys.stdin.read()
"""
BUSY = 0.5  # seconds


@contextlib.contextmanager
def qemu(*names):
    command = [sys.executable, "-c", QEMU.replace("BUSY", str(BUSY)), *names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def in_tracing_stop(process):
    """Returns the names of the threads that are in this state."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    fields = [(task / "stat").read_text().partition("(")[2].rpartition(") ") for task in tasks]
    return [name for name, _, rest in fields if rest.startswith("t")]


@pytest.mark.parametrize("names, stopped", ((("CPU", "call_rcu"), "call_rcu"), (("unnamed", "CPU"), "unnamed")))
def test_one_thread_stops_and_the_process_ends(names, stopped):
    with qemu(*names) as process:
        assert b"idle\n" in process.stdout
        assert rcu_thread.stop(process.pid)
        assert in_tracing_stop(process) == [stopped]
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_busy_thread_goes_on_until_it_waits_for_work():
    with qemu("call_rcu") as process:
        assert process.stdout.readline() == b"busy\n"
        begin = time.monotonic()
        assert rcu_thread.stop(process.pid)
        assert time.monotonic() - begin > BUSY / 2
        assert select.select([process.stdout], [], [], 0) == ([process.stdout], [], [])
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_thread_that_is_never_idle_is_not_stopped(monkeypatch):
    monkeypatch.setattr(rcu_thread, "GIVE_UP", BUSY / 10)
    with qemu("call_rcu") as process:
        assert process.stdout.readline() == b"busy\n"
        assert not rcu_thread.stop(process.pid)
        assert process.stdout.readline() == b"idle\n"
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_process_that_has_ended_has_no_thread_to_stop():
    with subprocess.Popen(["true"]) as process:
        process.wait()
        assert not rcu_thread.stop(process.pid)
