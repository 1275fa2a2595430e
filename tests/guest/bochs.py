"""A guest in Bochs, a PC emulator that checks what QEMU lets pass, such as reserved bits. The test reads and types at the first serial port.
The screen is VGA's text memory: this machine has no VESA BIOS extensions."""
import re
import select
import signal
import socket
import subprocess
import time

COLUMNS, ROWS, TEXT_MEMORY = 80, 25, 0xB8000

CONFIGURATION = """
cpu: model=corei7_skylake_x, count={cpus}, ips=400000000, reset_on_triple_fault=0
memory: guest=256, host=256
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
vga: extension=none, update_freq=5
ata0-master: type=cdrom, path={iso}, status=inserted
boot: cdrom
com1: enabled=1, mode=socket-client, dev=localhost:{port}
display_library: rfb, options="timeout=0"
log: {folder}/bochs.log
panic: action=fatal
error: action=report
mouse: enabled=0
"""


class Bochs:
    """A guest that boots the image `iso` on `cpus` CPUs. `folder` gets Bochs's files, bochs.log among them."""

    PROMPT = "# "

    def __init__(self, iso, folder, cpus):
        listener = socket.create_server(("localhost", 0))
        (folder / "bochsrc").write_text(CONFIGURATION.format(cpus=cpus, iso=iso, folder=folder, port=listener.getsockname()[1]))
        (folder / "commands").write_text("c\n")
        self.log = folder / "bochs.log"
        self.process = subprocess.Popen(["bochs", "-q", "-f", str(folder / "bochsrc"), "-rc", str(folder / "commands")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        listener.settimeout(30)
        self.serial = listener.accept()[0]
        listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.serial.close()

    def read_until(self, text, seconds):
        """Returns the output up to `text`; all output if `text` does not come in time."""
        data, end = b"", time.monotonic() + seconds
        while text.encode() not in data and time.monotonic() < end:
            if select.select([self.serial], [], [], 1)[0]:
                data += self.serial.recv(4096)
        return data.decode("utf-8", "replace").replace("\r\n", "\n")

    def type(self, text):
        self.serial.sendall(text.encode())

    def stop_and_read_screen(self):
        """Stops the guest for ever, and returns the lines of text on the screen."""
        self.process.send_signal(signal.SIGINT)
        output = self.process.communicate(f"xp /{2 * COLUMNS * ROWS}bx {TEXT_MEMORY:#x}\nq\n".encode(), timeout=120)[0].decode()
        cells = [int(byte, 16) for line in re.findall(r"<bogus\+ *\d+>:(.*)", output) for byte in line.split()]
        assert len(cells) == 2 * COLUMNS * ROWS, output
        text = bytes(cells[::2]).decode("latin-1")
        return [text[start:start + COLUMNS].rstrip() for start in range(0, len(text), COLUMNS)]
