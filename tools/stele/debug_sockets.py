"""The sockets by which debuggers reach a running guest. Each guest has a folder build/guests/PID, where
PID is the process id of the script that runs the guest. The folder has:

    gdb     QEMU's gdb stub
    qmp     QEMU's monitor
    kernel  a symbolic link to the kernel's ELF file
"""
import contextlib
import os
import pathlib
import shutil
import socket

from stele.build import build_folder

# Options of QEMU: the guest stops when the kernel reports a panic on pvpanic's port
# (kern/core/power.cc). A debugger can let the guest continue.
STOP_IN_PANIC = ["-device", "pvpanic", "-action", "panic=pause"]
# The guest also stops when the machine resets: at a triple fault, for example.
STOP_AT_RESET = ["-action", "shutdown=pause"]


class NoGuest(Exception):
    """No guest runs, or several do. The message is one line."""


def guests_folder():
    return build_folder() / "guests"


@contextlib.contextmanager
def folder(kernel):
    """A context manager: makes the folder for the sockets of a guest of this process, and removes the folder at the end."""
    made = guests_folder() / str(os.getpid())
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True, mode=0o700)
    try:
        (made / "kernel").symlink_to(pathlib.Path(kernel).resolve())
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def path(sockets, name):
    """Returns the shorter one of a socket's relative and absolute paths, since a path may have at most 107 characters."""
    return min(os.path.relpath(sockets / name), str(sockets / name), key=len)


def qemu_options(sockets):
    return ["-gdb", f"unix:{path(sockets, 'gdb')},server=on,wait=off", "-qmp", f"unix:{path(sockets, 'qmp')},server=on,wait=off"]


def connect(sockets, name):
    """Connects to the socket `name` of a guest and returns the connection. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path(sockets, name))
    except OSError:
        connection.close()
        raise
    return connection


def running(name=None):
    """Returns the folder of the running guest whose number is `name`. If `name` is None, returns the folder of the only running guest.
    Raises NoGuest."""
    found = {}
    for sockets in sorted(guests_folder().glob("[0-9]*")):
        if not pathlib.Path("/proc", sockets.name).exists():  # the guest's script was killed
            shutil.rmtree(sockets, ignore_errors=True)
        with contextlib.suppress(OSError):
            connect(sockets, "qmp").close()
            found[sockets.name] = sockets
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    if not found:
        raise NoGuest("no guest runs that can be reached: `make run`, `make gdb` or scripts/guest --debug start one")
    numbers = " ".join(found)
    raise NoGuest(f"no guest {name} runs, but {numbers}" if name else f"several guests run: --guest one of {numbers}")
