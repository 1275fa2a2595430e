"""Helpers for the tests of #probe: they give a program's functions in the form that commands of #probe take, and parse a session's `counts`."""
import re
import subprocess

from guest import BUILD, ctl_in
from stele.returns import SECTION, decode

PROGRAMS = BUILD / "user/bin"
# Must be at the end of a script: check_nothing_left() reads this output, to see that no session and no
# trace memory is left.
ENDS = '\nls "#probe"; cat #mem/kmemtrace/ctl'


class Program:
    """A program of the image, with the names and addresses of its functions."""

    def __init__(self, name, path=None):
        self.path = path or f"/bin/{name}"
        self.functions = {}  # name: (address, size)
        for line in self._run("nm", "-S", PROGRAMS / name).splitlines():
            if found := re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) [tTwW] (\S+)", line):
                self.functions[found[3]] = (int(found[1], 16), int(found[2], 16))
        dumped = self._run("readelf", "-x", SECTION, PROGRAMS / name)
        data = b"".join(bytes.fromhex("".join(re.findall(r"[0-9a-f]+", line[13:48]))) for line in dumped.splitlines()
                        if line.startswith("  0x"))
        self.returns = decode(data)

    @staticmethod
    def _run(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def at(self, name, returns=False):
        """Returns PATH:ADDRESS:NAME, the form of the function `name` in commands of #probe. `returns` appends :RETURN,…, the addresses of the
        function's `ret` instructions."""
        address, size = self.functions[name]
        text = f"{self.path}:{address:x}:{name}"
        if not returns:
            return text
        inside = [f"{at:x}" for at in self.returns if address <= at < address + size]
        return f"{text}:{','.join(inside)}"

    def allocators(self):
        """Returns the commands for all functions of newlib's allocator."""
        rules = [("_malloc_r", "size=2"), ("_calloc_r", "size=2*3"), ("_realloc_r", "size=3 old=2"),
                 ("posix_memalign", "size=3 result=*1")]
        lines = [f"alloc {self.at(name, True)} {rule}" for name, rule in rules if name in self.functions]
        return "\n".join(lines + [f"free {self.at('_free_r')} address=2"])


class Counts:
    """The parsed text of `counts`."""

    def __init__(self, text):
        lines = text.splitlines()
        words = lines[0].split()
        self.number, self.state, self.functions = int(words[1]), words[3], int(words[5])
        words = lines[1].split()
        self.header = {key: int(value) for key, value in zip(words[::2], words[1::2])}
        self.rows = [self._row(line.split()) for line in lines[3:]]

    @staticmethod
    def _row(words):
        row = {"kernel": (), "user": (), "count": int(words[1])}
        at = 2
        while at < len(words):
            key, at = words[at], at + 1
            if key in ("kernel", "user"):
                end = at
                while end < len(words) and re.fullmatch("[0-9a-f]+", words[end]):
                    end += 1
                row[key], at = tuple(int(word, 16) for word in words[at:end]), end
            else:
                row[key], at = words[at], at + 1
        return row


def check_nothing_left(output):
    assert "clone\nfunctions\nlimit " in output
    memory, traces = ctl_in(output[output.index("limit "):])
    assert (memory["used"], memory["stacks"], memory["contexts"], traces) == (0, 0, 0, []), output
