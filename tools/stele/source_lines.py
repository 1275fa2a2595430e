"""Turns "function+0x12 [kernel]" into file and line, with inlined functions, by the kernel's ELF file."""
import os
import pathlib
import re
import subprocess

from stele import ksyms


class SourceLines:
    """Look-ups in one ELF file; files are named from `root` on."""

    def __init__(self, elf, root):
        self.elf, self.root = str(elf), pathlib.Path(root)
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
        """"kern/src/pages.cc:12": the file as it is called below `root`, also if the ELF file was built in another checkout."""
        file, _, line = place.partition(" (")[0].rpartition(":")
        parts = pathlib.PurePath(os.path.normpath(file)).parts
        for start in range(len(parts)):
            below = pathlib.PurePath(*parts[start:])
            if not below.is_absolute() and (self.root / below).is_file():
                return f"{below}:{line}"
        return f"{file}:{line}"
