"""Turns "function+0x12 [kernel]" into file and line, with inlined functions, by the kernel's ELF file."""
import os
import re
import subprocess

from stele import ksyms


class SourceLines:
    """Look-ups in one ELF file; `root` is cut from file names."""

    def __init__(self, elf, root):
        self.elf, self.root = str(elf), str(root).rstrip("/") + "/"
        self.addresses = {name: address for address, name in ksyms.functions(ksyms.nm(self.elf))}

    def address(self, frame):
        """The address before the return address that `frame` names; None if it names none of the kernel's."""
        match = re.fullmatch(r"(.+)\+0x([0-9a-f]+) \[kernel\]", frame)
        if not match or match[1] not in self.addresses:
            return None
        return self.addresses[match[1]] + int(match[2], 16) - 1

    def look_up(self, frames):
        """{frame: [(function, "file:line"), …]}, the inlined functions first, in one run of addr2line."""
        known = {frame: address for frame in dict.fromkeys(frames) if (address := self.address(frame)) is not None}
        if not known:
            return {}
        output = subprocess.run(["addr2line", "-e", self.elf, "-a", "-f", "-C", "-i"],
                                input="".join(f"{address:#x}\n" for address in known.values()),
                                check=True, capture_output=True, text=True).stdout
        places = {}
        lines = iter(output.splitlines())
        for line in lines:
            if line.startswith("0x"):
                current = places.setdefault(int(line, 16), [])
                continue
            current.append((ksyms.plain_name(line), self.shorten(next(lines))))
        return {frame: places.get(address, []) for frame, address in known.items()}

    def shorten(self, place):
        file, _, line = place.partition(" (")[0].rpartition(":")
        file = os.path.normpath(file)
        return f"{file.removeprefix(self.root)}:{line}"
