"""Questions about all of memory. build/tools/stele-reach answers them from a core. For a running guest, which is stopped while gdb has control,
this module lets QEMU write a temporary core."""
import os
import pathlib
import re
import socket
import subprocess
import tempfile
from dataclasses import dataclass

import gdb

from stele.build import build_folder
from stele.debugger.memory import Unreadable
from stele.debugger.memory_map import MemoryMap
from stele.qmp import Qmp, QmpError, dump

_made = []  # the folder with the temporary core of the guest; empty if there is none


@dataclass
class Location:
    """The location of a word: in an object, in other memory, or in a register."""

    address: int
    owner: object = None  # Cache or Arena of the object that contains the word; None: in no object
    item: int = 0  # address of this object
    register: str = ""  # name of the register; "" for a word in memory


class Answer:
    """The output of stele-reach. `lines`: [word, number, …] for each line."""

    def __init__(self, memory_map, text):
        self.map = memory_map
        self.lines = [[word, *(int(number, 16) for number in numbers)] for word, *numbers in map(str.split, text.splitlines())]

    def place(self, address, item, source):
        """Returns the Location that the numbers ADDRESS, HOLDER and SOURCE of a line give."""
        return Location(address, self.map.sources[source] if item else None, item, self.map.registers.get(address, ""))


def ask(kernel, *questions, more=""):
    """Asks stele-reach these questions (tools/reach/main.cc), and returns the Answer. `more`: lines that are appended to the description of memory.
    Raises Unreadable."""
    program = build_folder() / "tools/stele-reach"
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
    """Returns the path of the core that gdb has open. If gdb has no core open, writes a temporary core of the guest and returns its
    path. Later calls return the path of the same temporary core until the guest's memory changes. Raises Unreadable."""
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
    """Removes the temporary core. gdb calls this when the guest runs again, or when gdb itself writes to the guest's memory."""
    while _made:
        _made.pop().cleanup()


gdb.events.cont.connect(_forget)
gdb.events.memory_changed.connect(_forget)
