"""A recorded run of a script in a guest, and the guest's memory at any moment of the run (scripts/guest --record and --replay).

A moment is a number of executed instructions. Under -icount a nanosecond of the guest's clock is an instruction, but the kernel's time begins after the
firmware has run. The kernel's last line tells both.
"""
import hashlib
import json
import pathlib
import re
import shutil
import subprocess

from stele import children
from stele.build import build_folder

_OFF = re.compile(rb"\[ *(\d+)\.(\d{6})\] power off after (\d+) ticks")


MEMORY = "64M"  # of a recorded guest, if nothing else is wanted: each look at a moment writes and reads all of it


class RecordingError(Exception):
    """The run could not be recorded or replayed. The message is one line."""


def add_options(parser):
    """Adds the options of scripts that record a run to an argument parser."""
    parser.add_argument("--variant", default="", metavar="NAME", help="the build with configs/NAME.config")
    parser.add_argument("--cmdline", default="", metavar="…", help="appended to the kernel command line")
    parser.add_argument("--mem", default=MEMORY, metavar="M", help=f"memory ({MEMORY})")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds for each run (120)")
    parser.add_argument("--add", action="append", default=[], metavar="FILE", type=pathlib.Path, help="a program that the guest gets as /bin/NAME")
    parser.add_argument("--port", action="append", default=[], metavar="NAME", help="a port of user/ports (scripts/guest)")
    parser.add_argument("--no-build", action="store_true", help="boot the image without a build")


def guest_options(options):
    """Returns these options for scripts/guest, without memory and command line."""
    return ["--variant", options.variant, "--timeout", str(options.timeout), *(word for file in options.add for word in ("--add", str(file.absolute()))),
            *(word for port in options.port for word in ("--port", port)), *["--no-build"] * options.no_build]


class Recording:
    """Runs `script` in the guest of scripts/guest in the checkout `root`, with these `options`, and records the run in `folder`. `output` is the
    script's standard output, `status` its status, `end` the moment of the power-off. Raises RecordingError."""

    def __init__(self, root, options, script, folder):
        self.options, self.script = [str(option) for option in options], script
        self.command = [root / "scripts/guest", *self.options, "-c", script]
        self.file = folder / "recording"
        log = folder / "log"
        run = children.run([*self.command, "--record", self.file, "--log", log], stdout=subprocess.PIPE)
        self.output, self.status = run.stdout, run.returncode
        self._image = _image_of(self.options)
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

    def keep(self, folder):
        """Keeps the recording in `folder`, for Kept. A recording that was there is replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.file, folder / "recording")
        (folder / "run.json").write_text(json.dumps({"options": self.options, "script": self.script, "end": self.end, "image": self._image}, indent=1) + "\n")


class Kept:
    """A recording in the folder where Recording.keep() has put it. `end`: the moment of the power-off; `kernel`: the ELF file. Raises RecordingError,
    also if the image has changed since."""

    def __init__(self, folder):
        try:
            run = json.loads((folder / "run.json").read_text())
            self.options, self.script, self.end, image = run["options"], run["script"], run["end"], run["image"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordingError(f"{folder}: no recorded run") from error
        if image != _image_of(self.options):
            raise RecordingError(f"{folder}: kernel or programs are not those of the recorded run; record it again")
        self.file, self.kernel = folder / "recording", build_folder(_value_of(self.options, "--variant")) / "stele.elf"

    def guest_at(self, moment):
        """Returns the command that replays the run to a moment, and then waits for a debugger."""
        return [*self.options, "--no-build", "--replay", str(self.file), "--until", str(moment), "--debug", "--timeout", "1e9", "-c", self.script]


def _value_of(options, name):
    return options[options.index(name) + 1] if name in options else ""


def _image_of(options):
    """Returns a hash of what a guest with these options boots: the kernel, the archives and the added programs."""
    values = [(option, value) for option, value in zip(options, options[1:], strict=False) if option in ("--add", "--port")]
    files = [build_folder(_value_of(options, "--variant")) / "stele.elf", build_folder() / "initrd.cpio",
             *(build_folder() / f"ports/{value}.cpio" for option, value in values if option == "--port"),
             *(pathlib.Path(value) for option, value in values if option == "--add")]
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
