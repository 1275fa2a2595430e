"""QEMU's monitor (QMP): one JSON object a line, over a socket."""
import json
import os
import pathlib
import subprocess


class QmpError(Exception):
    """QEMU refused a command, or ended."""


class Qmp:
    """The client's side of a connected socket. Not for two threads at once."""

    def __init__(self, connection):
        self.file = connection.makefile("rwb", buffering=0)
        self.lines = connection.makefile("rb")
        self.events = []
        self.execute("qmp_capabilities")

    def execute(self, command, **arguments):
        """What the command returns. QmpError."""
        try:
            self.file.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        except OSError as error:
            raise QmpError("QEMU has ended") from error
        while True:
            said = self._read()
            if "return" in said:
                return said["return"]
            if "error" in said:
                raise QmpError(said["error"]["desc"])

    def wait_for(self, *names):
        """The name of the next event that has one of these. QmpError if QEMU ends first."""
        while True:
            for place, name in enumerate(self.events):
                if name in names:
                    del self.events[: place + 1]
                    return name
            self._read()

    def _read(self):
        """What QEMU says next; events are kept too."""
        try:
            line = self.lines.readline()
        except OSError as error:
            raise QmpError("QEMU has ended") from error
        if not line:
            raise QmpError("QEMU has ended")
        try:
            said = json.loads(line)
        except ValueError as error:
            raise QmpError("QEMU has ended in the middle of a word") from error
        if "event" in said:
            self.events.append(said["event"])
        return said


def dump(qmp, core):
    """Writes the guest's memory to the file `core`, an ELF core with the kernel's own addresses; the guest stands still meanwhile. The file
    is there when it is whole, and takes no room on the disk for pages of zeros. QmpError."""
    core = pathlib.Path(core).absolute()
    part = core.with_name(core.name + ".part")
    try:
        qmp.execute("dump-guest-memory", paging=True, protocol=f"file:{part}")
        part.chmod(0o600)
        subprocess.run(["fallocate", "--dig-holes", part], stderr=subprocess.DEVNULL, check=False)  # not every file system can
        os.replace(part, core)
    except OSError as error:
        raise QmpError(str(error)) from error
    finally:
        part.unlink(missing_ok=True)
