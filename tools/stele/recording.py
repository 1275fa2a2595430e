"""A recorded run of a script in a guest, and the guest's memory at any moment of the run (scripts/guest --record and --replay).

A moment is a number of executed instructions. Under -icount a nanosecond of the guest's clock is an instruction, but the kernel's time begins after the
firmware has run. The kernel's last line tells both.
"""
import re
import subprocess

from stele import children

_OFF = re.compile(rb"\[ *(\d+)\.(\d{6})\] power off after (\d+) ticks")


class RecordingError(Exception):
    """The run could not be recorded or replayed. The message is one line."""


class Recording:
    """Runs `script` in the guest of scripts/guest in the checkout `root`, with these `options`, and records the run in `folder`. `output` is the
    script's standard output, `status` its status, `end` the moment of the power-off. Raises RecordingError."""

    def __init__(self, root, options, script, folder):
        self.command = [root / "scripts/guest", *options, "-c", script]
        self.file = folder / "recording"
        log = folder / "log"
        run = children.run([*self.command, "--record", self.file, "--log", log], stdout=subprocess.PIPE)
        self.output, self.status = run.stdout, run.returncode
        off = _OFF.search(log.read_bytes()) if log.exists() else None
        if not off:
            raise RecordingError(f"the guest ended with status {self.status}")
        seconds, microseconds, self.end = map(int, off.groups())
        self._boot = self.end - (seconds * 1_000_000 + microseconds) * 1000

    def moment_of(self, nanoseconds):
        """Returns the moment at which the kernel's clock showed this time. The moment is exact to a thousand instructions."""
        return self._boot + nanoseconds

    def core_at(self, moment, core):
        """Replays the run up to a moment, and writes the guest's memory and registers to the file `core`. May be called from several threads. Raises
        RecordingError."""
        run = children.run([*self.command, "--no-build", "--replay", self.file, "--until", str(moment), "--core", core], stderr=subprocess.PIPE)
        if run.returncode:
            raise RecordingError(run.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].removeprefix("guest: "))
