"""A guest with a screen and a keyboard: reads the text on the screen, and types keys."""
import functools
import os
import select
import time

from console import Console
from guest import BUILD
from stele.debug_sockets import connect
from stele.qmp import Qmp
from stele.screen_font import CHARACTERS, FONT, HEIGHT, read_font

WIDTH = 8
# QEMU's names of the keys for characters other than letters and digits.
KEYS = {" ": "spc", "\n": "ret", "\b": "backspace", "\t": "tab", "-": "minus", "=": "equal", "[": "bracket_left", "]": "bracket_right",
        ";": "semicolon", "'": "apostrophe", "`": "grave_accent", "\\": "backslash", ",": "comma", ".": "dot", "/": "slash"}
SHIFTED = dict(zip('!@#$%^&*()_+{}:"~|<>?', "1234567890-=[];'`\\,./"))


def keys_of(character):
    """Returns QEMU's names of the keys that type a character."""
    if character in SHIFTED or character.isupper():
        return ["shift", *keys_of(SHIFTED.get(character, character.lower()))]
    return [KEYS.get(character, character)]


@functools.cache
def characters():
    """Returns {the bits of a glyph, one byte for each line: its character}."""
    font = read_font(FONT)
    return {bytes(font[code]): chr(code) for code in CHARACTERS if code in font}


def read_ppm(path):
    """Returns (width, height, pixels) of a picture in the format PPM, as QEMU writes it; pixels has three bytes for each pixel."""
    magic, size, most, pixels = path.read_bytes().split(b"\n", 3)
    assert (magic, most) == (b"P6", b"255")
    width, height = map(int, size.split())
    return width, height, pixels


def text_of(width, height, pixels):
    """Returns the lines of text in a picture of the screen. A cell of which every pixel is the same is a blank. Exchanged colours are the same
    text. A cell that has no glyph of the font is U+FFFD."""
    def bits(line):  # a dark pixel is background
        return sum((max(line[3 * x:3 * x + 3]) > 0x60) << (7 - x) for x in range(WIDTH))

    bits = functools.cache(bits)
    lines = []
    for top in range(0, height // HEIGHT * HEIGHT, HEIGHT):
        rows = [pixels[3 * width * (top + y):3 * width * (top + y + 1)] for y in range(HEIGHT)]
        line = ""
        for left in range(0, 3 * width // (3 * WIDTH) * 3 * WIDTH, 3 * WIDTH):
            glyph = bytes(bits(row[left:left + 3 * WIDTH]) for row in rows)
            inverse = bytes(255 - byte for byte in glyph)
            line += characters().get(glyph) or characters().get(inverse, "\N{REPLACEMENT CHARACTER}")
        lines.append(line.rstrip())
    return lines


class ScreenConsole(Console):
    """A guest that boots the image `iso` by itself, with `firmware` from `medium` (iso: a CD, stick: a USB stick). The serial console is
    still there; the methods of this class are the screen and the keyboard. Before press_text(), all output must have been read."""

    def __init__(self, iso, folder, firmware="bios", machine="q35", medium="iso", memory="256M"):
        super().__init__(f"--{medium}", str(iso), "--firmware", firmware, "--machine", machine, "--screen", "none", "--mem", memory)
        self.picture = folder / "screen.ppm"
        self.qmp = None

    def monitor(self):
        """Returns the connection to QEMU's monitor, which takes a moment to be there."""
        end = time.monotonic() + 30
        while self.qmp is None:
            try:
                self.qmp = Qmp(connect(BUILD / "guests" / str(self.process.pid), "qmp"))
            except OSError:
                assert time.monotonic() < end, "QEMU does not start"
                time.sleep(0.05)
        return self.qmp

    def screen(self):
        """Returns the lines of text on the screen."""
        self.monitor().execute("screendump", filename=str(self.picture))
        return text_of(*read_ppm(self.picture))

    def wait_for_screen(self, is_there, seconds=60):
        """Waits until is_there(lines) is true, and returns the lines. Fails after `seconds`."""
        end = time.monotonic() + seconds
        while not is_there(lines := self.screen()):
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.1)
        return lines

    def press(self, *names):
        """Presses keys together, by QEMU's names, and lets them go."""
        self.monitor().execute("send-key", keys=[{"type": "qcode", "data": name} for name in names], **{"hold-time": 5})

    def press_text(self, text):
        """Types a text. After each key waits for the echo at the serial port, since a busy guest would lose keys. Returns the output."""
        output = b""
        for character in text:
            self.press(*keys_of(character))
            assert select.select([self.master], [], [], 30)[0], f"no echo of {character!r}"
            output += os.read(self.master, 4096)
        return output.decode("utf-8", "replace").replace("\r\r\n", "\n")

    def run(self, command):
        """Types a command, and returns the output up to the next prompt."""
        output = self.press_text(command + "\n")
        return output if output.endswith(self.PROMPT) else output + self.read_until(self.PROMPT)
