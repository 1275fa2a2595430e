"""One thread of QEMU is stopped, and QEMU still ends. A program with two more threads takes QEMU's place here."""
import pathlib
import subprocess
import sys

import pytest

from stele import rcu_thread

QEMU = """
import ctypes, sys, threading
names, started = sys.argv[1:], threading.Barrier(len(sys.argv))
def work(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
    started.wait()
    threading.Event().wait()
for name in names:
    thread = threading.Thread(target=work, args=(name,), daemon=True)
    thread.start()
started.wait()
print("ready", flush=True)
sys.stdin.read()
"""


def in_tracing_stop(process):
    """Returns the names of the threads that are in this state."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    fields = [(task / "stat").read_text().partition("(")[2].rpartition(") ") for task in tasks]
    return [name for name, _, rest in fields if rest.startswith("t")]


@pytest.mark.parametrize("names, stopped", ((("CPU", "call_rcu"), "call_rcu"), (("unnamed", "CPU"), "unnamed")))
def test_one_thread_stops_and_the_process_ends(names, stopped):
    with subprocess.Popen([sys.executable, "-c", QEMU, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert rcu_thread.stop(process.pid)
        assert in_tracing_stop(process) == [stopped]
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_process_that_has_ended_has_no_thread_to_stop():
    with subprocess.Popen(["true"]) as process:
        process.wait()
        assert not rcu_thread.stop(process.pid)
