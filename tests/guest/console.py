"""The guest's console, as a person at a terminal has it."""
import os
import pty
import select
import subprocess
import time

import guest
from guest import BUILD, ROOT


def until_cue(name):
    """A command for the guest that waits until the test gives the cue."""
    return f"until [ -e /host/{name} ]; do usleep 20000; done"


class Console:
    """A guest with a person at its console: scripts/run on a pseudo-terminal. The folder `share` is its /host."""

    PROMPT = "# "

    def __init__(self, *options, share=None):
        self.master, slave = pty.openpty()
        command = [str(ROOT / "scripts/run"), "--smp", str(guest.cpus), *(options or ("--kernel", str(BUILD / "stele.elf"), "--initrd", str(BUILD / "initrd.cpio")))]
        self.share = share
        if share:
            command += ["--share", str(share)]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        os.write(self.master, b"\x01x")
        self.process.wait()
        os.close(self.master)

    def read_until(self, text, seconds=60):
        """The output up to and with `text`; all output if it does not come."""
        data, end = b"", time.monotonic() + seconds
        while text.encode() not in data and time.monotonic() < end:
            if select.select([self.master], [], [], 1)[0]:
                data += os.read(self.master, 4096)
        # QEMU leaves the terminal's own translation of line ends on.
        return data.decode("utf-8", "replace").replace("\r\r\n", "\n")

    def cue(self, name):
        """Lets the guest continue behind until_cue(name)."""
        (self.share / name).touch()

    def type(self, text):
        os.write(self.master, text.encode())
