"""Stops one thread of QEMU for the life of a guest: the thread that frees memory which other threads may still be reading (RCU).

From version 10.2 on, this thread does not wait long for the thread that executes the CPUs. It makes
that thread end the current CPU's time slice and go on to the next CPU. When this happens depends on
the host. So under -icount a run with several CPUs would not repeat. In earlier versions the thread
only waits. A guest does not need the thread: the memory, some kilobytes for each change of the
guest's physical memory map, stays allocated until QEMU ends.
"""
import os
import pathlib
import threading
import time

PTRACE_CONT, PTRACE_SEIZE, PTRACE_INTERRUPT = 7, 0x4206, 0x4207  # linux/ptrace.h
WALL = 0x40000000  # linux/wait.h: also wait for threads
FUTEX = 202  # the number of the system call
LOCKED = 2  # the value of a futex that is a lock for which threads wait

NAME = "call_rcu"  # in newer versions of QEMU
GIVE_UP, INTERVAL = 30, 0.01  # seconds


def stop(qemu):
    """Stops the thread of the process `qemu`, which has made all of its threads and waits for the monitor's command `cont` (option -S). The thread
    stops while it waits for work and holds no lock. Returns when it has stopped; false if that is impossible, because Linux allows no tracing
    here. The thread ends together with QEMU."""
    tracer = _Tracer(qemu)
    tracer.start()
    tracer.decided.wait()
    return tracer.stopped


class _Tracer(threading.Thread):
    """Linux knows the tracer by its thread. It also has to wait for the end of the stopped thread; without this, QEMU would not end either."""

    def __init__(self, qemu):
        super().__init__(daemon=True)
        self.qemu, self.decided, self.stopped = qemu, threading.Event(), False

    def run(self):
        import ctypes  # pylint: disable=import-outside-toplevel  # may keep a file open, so not before entry.run() has opened the standard files
        try:
            thread = self._find()
            ptrace = ctypes.CDLL(None, use_errno=True).ptrace
            ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
            ptrace.restype = ctypes.c_long
            if ptrace(PTRACE_SEIZE, thread, None, None) == 0:
                end = time.monotonic() + GIVE_UP
                while not self.stopped and time.monotonic() < end:
                    ptrace(PTRACE_INTERRUPT, thread, None, None)
                    if not os.WIFSTOPPED(os.waitpid(thread, WALL)[1]):
                        break  # QEMU has ended
                    self.stopped = self._waits_for_work(thread)
                    if not self.stopped:
                        ptrace(PTRACE_CONT, thread, None, None)
                        time.sleep(INTERVAL)
        except (OSError, IndexError):  # QEMU has ended
            pass
        finally:
            self.decided.set()
        while self.stopped and os.WIFSTOPPED(os.waitpid(thread, WALL)[1]):
            pass  # it stops once more if QEMU's whole process group is stopped

    def _waits_for_work(self, thread):
        """True if the stopped thread waits for work without a time limit. Elsewhere it may hold a lock, such as malloc's."""
        call = pathlib.Path(f"/proc/{self.qemu}/task/{thread}/syscall").read_text().split()
        number, *arguments = [int(word, 0) for word in call]
        return number == FUTEX and arguments[2] & 0xFFFFFFFF != LOCKED and arguments[3] == 0

    def _find(self):
        """Returns the thread. If it has no name, it is the first that QEMU makes, even before main() begins. Linux lists the oldest threads first."""
        threads = [int(name) for name in os.listdir(f"/proc/{self.qemu}/task")]
        named = (each for each in threads if pathlib.Path(f"/proc/{self.qemu}/task/{each}/comm").read_text().strip() == NAME)
        return next(named, threads[1])
