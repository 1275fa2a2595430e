"""Questions about all of memory: build/tools/stele-reach answers them from a core. For a running
guest, which stands still while gdb has it, a core is made for the moment."""
import os
import pathlib
import re
import socket
import subprocess
import tempfile
from dataclasses import dataclass

import gdb

from stele.debugger.memory import Unreadable
from stele.debugger.memory_map import MemoryMap
from stele.qmp import Qmp, QmpError, dump

_made = []  # the folder of a core of the guest, at most one
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


@dataclass
class Place:
    """The location of a word: in an object of a cache or arena, or in neither; for a register,
    which is not in memory, its name."""

    address: int
    owner: object = None
    item: int = 0
    register: str = ""


class Answer:
    """`lines`: the words of each line, numbers as ints."""

    def __init__(self, memory_map, text):
        self.map = memory_map
        self.lines = [[word, *(int(number, 16) for number in numbers)] for word, *numbers in map(str.split, text.splitlines())]

    def place(self, address, item, source):
        """A Place from the three numbers of a line."""
        return Place(address, self.map.sources[source] if item else None, item, self.map.registers.get(address, ""))


def ask(kernel, *questions, more=""):
    """An Answer to the questions of tools/reach/main.cc, one after the other. `more`: further lines
    of the description. Unreadable."""
    program = pathlib.Path(os.environ.get("STELE_BUILD", ROOT / "build")) / "tools/stele-reach"
    memory_map = kernel.once(MemoryMap)
    core = _core()
    try:
        run = subprocess.run([program, core, *questions], input=memory_map.text + more, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unreadable(f"{program}: {error.strerror}: make builds it") from error
    if run.returncode:
        raise Unreadable(run.stderr.strip().removeprefix("reach: ") or "the program that looks through memory has ended")
    return Answer(memory_map, run.stdout)


def _core():
    """The path of the core that gdb has open, or of a core of the guest, which is kept until the
    guest goes on."""
    opened = re.search(r"^Local core dump file:\s+`(.+)', file type", gdb.execute("info files", to_string=True), re.M)
    if opened:
        return opened[1]
    stub = os.environ.get("STELE_GDB_SOCKET")
    if not stub:
        raise Unreadable("the guest's monitor is not known: scripts/gdb knows it")
    if not _made:
        folder = tempfile.TemporaryDirectory(prefix="stele-")
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(pathlib.Path(stub).with_name("qmp")))
                dump(Qmp(connection), pathlib.Path(folder.name) / "core")
        except (OSError, QmpError) as error:
            folder.cleanup()
            raise Unreadable(f"the guest's memory: {error}") from error
        _made.append(folder)
    return pathlib.Path(_made[0].name) / "core"


def _forget(_event):
    """Memory has changed."""
    while _made:
        _made.pop().cleanup()


gdb.events.cont.connect(_forget)
gdb.events.memory_changed.connect(_forget)
