"""Speaks to QEMU's monitor (QMP) over a socket: each line is a JSON object."""
import json
import os
import pathlib
import socket

_BLOCK, _CHUNK = 4096, 1 << 16  # bytes of the smallest hole in a core; most bytes that one read takes from the pipe


class QmpError(Exception):
    """QEMU refused a command, or ended."""


class Qmp:
    """A connection to a monitor. Only one thread at a time may use it. `events`: those that wait_for() has not returned yet."""

    def __init__(self, connection):
        self.connection = connection
        self.lines = connection.makefile("rb")
        self.events = []
        self.execute("qmp_capabilities")

    def execute(self, command, *files, **arguments):
        """Executes a command and returns its result. `files`: file descriptors to pass to QEMU with the command. Raises QmpError."""
        try:
            message = json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
            sent = socket.send_fds(self.connection, [message], files)
            self.connection.sendall(message[sent:])
        except OSError as error:
            raise QmpError("QEMU has ended") from error
        while True:
            said = self._read()
            if "return" in said:
                return said["return"]
            if "error" in said:
                raise QmpError(said["error"]["desc"])

    def wait_for(self, *names):
        """Waits for one of the events `names` and returns (its name, its data). Forgets all earlier events. Raises QmpError if QEMU ends first."""
        while True:
            for place, (name, data) in enumerate(self.events):
                if name in names:
                    del self.events[: place + 1]
                    return name, data
            self._read()

    def _read(self):
        """Returns QEMU's next message. If it is an event, adds it to `events`."""
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
            self.events.append((said["event"], said.get("data", {})))
        return said


def dump(qmp, core):
    """Writes the guest's memory to the file `core`, an ELF core with the kernel's virtual addresses.
    The guest is stopped while QEMU writes. The file appears when it is complete. QEMU writes to a
    pipe, from which this function leaves out blocks of zeros, so they take no space on the disk.
    Raises QmpError."""
    core = pathlib.Path(core).absolute()
    part = core.with_name(core.name + ".part")
    try:
        reading, writing = os.pipe()
        with open(reading, "rb") as pipe:
            try:
                qmp.execute("getfd", writing, fdname="core")
            finally:
                os.close(writing)
            qmp.execute("dump-guest-memory", paging=True, protocol="fd:core", detach=True)
            with open(part, "wb", opener=_private) as file:
                _copy_sparsely(pipe, file)
        qmp.wait_for("DUMP_COMPLETED")
        if qmp.execute("query-dump")["status"] != "completed":
            raise QmpError("QEMU could not dump the guest's memory")
        os.replace(part, core)
    except OSError as error:
        raise QmpError(str(error)) from error
    finally:
        part.unlink(missing_ok=True)


def _private(path, flags):
    return os.open(path, flags, 0o600)


def _copy_sparsely(pipe, file):
    """Copies the pipe to the file. Blocks of zeros become holes in the file."""
    zeros, none = bytes(_BLOCK), bytes(_CHUNK)
    for chunk in iter(lambda: pipe.read(_CHUNK), b""):
        if chunk == none:
            file.seek(_CHUNK, os.SEEK_CUR)
            continue
        for block in (chunk[start:start + _BLOCK] for start in range(0, len(chunk), _BLOCK)):
            if block == zeros:
                file.seek(_BLOCK, os.SEEK_CUR)
            else:
                file.write(block)
    file.truncate()
