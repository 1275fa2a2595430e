"""The programs that a script starts, and how they end with the script.

^C reaches the script alone, since each program has a session of its own. The script tells the programs to end (SIGTERM), waits for them, and ends
itself; so no program and no file of a program stays behind. SIGTERM and SIGHUP do the same. If the script is killed (SIGKILL), the kernel tells its
programs to end. A second ^C kills them.
"""
import contextlib
import os
import signal
import subprocess
import threading

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STEP = 3600  # seconds; with a limit, Popen.wait() looks again and again
_running = set()
_interrupted = []  # the signals that have told the script to end


class Interrupted(BaseException):
    """A signal has told the script to end."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def end_on_signals():
    """From now on, SIGINT, SIGTERM and SIGHUP end the programs, and raise Interrupted in the main thread. A signal that was ignored stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number, _):
    first = not _interrupted
    _interrupted.append(number)
    for child in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM if first else signal.SIGKILL)  # the programs of a program, too: make's
    if first:
        raise Interrupted(number)


def start(command, **options):
    """Starts a program. `options` are those of Popen. Returns the Popen. May be called from any thread; raises Interrupted if the script is to end."""
    if _interrupted:
        raise Interrupted(_interrupted[0])
    child = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *map(os.fspath, command)], start_new_session=True, **options)
    _running.add(child)
    if _interrupted:  # the signal came before the program was in _running
        os.killpg(child.pid, signal.SIGTERM)
    return child


def run(command, error_line=None, output_part=None, **options):
    """Runs a program to its end. `options` are those of Popen. `error_line`: called with each line of its standard error, until the script is to end.
    `output_part`: called with each part of its standard output as it arrives. Returns a CompletedProcess."""
    child = start(command, **options, **({"stderr": subprocess.PIPE} if error_line else {}))
    # Threads read, and this thread waits in short steps: a thread that reads without end in C would not execute the handler of a signal.
    read = [Reader(child.stdout, take_part=output_part), Reader(child.stderr, error_line)]
    forget(child)
    return subprocess.CompletedProcess(command, child.returncode, *(reader.all() for reader in read))


class Reader(threading.Thread):
    """Reads a pipe to its end; None is no pipe."""

    def __init__(self, pipe, take_line=None, take_part=None):
        super().__init__(daemon=True)
        self.pipe, self.take_line, self.take_part, self.data = pipe, take_line, take_part, None
        if pipe:
            self.start()

    def run(self):
        if not self.take_line:
            parts = []
            while part := self.pipe.read1(1 << 16):
                parts.append(part)
                if self.take_part:
                    self.take_part(part)
            self.data = b"".join(parts)
            return
        for line in self.pipe:
            if not _interrupted:
                self.take_line(line)

    def all(self):
        if self.pipe:
            self.join()
            self.pipe.close()
        return self.data


def forget(child):
    """Waits for a program. Afterwards, the script no longer cares about it."""
    while child.returncode is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STEP)
    _running.discard(child)


def wait_for_all():
    for child in list(_running):
        forget(child)
