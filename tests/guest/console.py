"""The guest's console, as a person at a terminal sees it."""
import os
import pty
import select
import subprocess
import time

import guest
from guest import BUILD, ROOT


def until_cue(name):
    """Returns a command for the guest that waits until the test calls Console.cue(name)."""
    return f"until [ -e /host/{name} ]; do usleep 20000; done"


class Console:
    """A guest started by scripts/run on a pseudo-terminal, at which the test types and reads like a person. The folder `share` is the guest's
    /host."""

    PROMPT = "# "

    def __init__(self, *options, share=None):
        self.master, slave = pty.openpty()
        command = [str(ROOT / "scripts/run"), "--smp", str(guest.cpus), *(options or ("--kernel", str(BUILD / "stele.elf"), "--initrd", str(BUILD / "initrd.cpio"), "--port", str(BUILD / "ports/tests.cpio")))]
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
        """Returns the output up to and including `text`; all output if `text` does not come in time."""
        data, end = b"", time.monotonic() + seconds
        while text.encode() not in data and time.monotonic() < end:
            if select.select([self.master], [], [], 1)[0]:
                data += os.read(self.master, 4096)
        # The guest ends lines with \r\n. The host's terminal translates the \n to \r\n once more, since QEMU leaves this translation on.
        return data.decode("utf-8", "replace").replace("\r\r\n", "\n")

    def cue(self, name):
        """Lets the guest continue after until_cue(name)."""
        (self.share / name).touch()

    def type(self, text):
        os.write(self.master, text.encode())
