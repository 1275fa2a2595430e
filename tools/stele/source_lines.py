"""Turns addresses of the kernel and of programs into functions, files and lines, with inlined
functions, from the ELF files."""
import os
import pathlib
import re
import subprocess

from stele import dwarf, ksyms
from stele.tracedump import Symbols


class SourceLines:
    """Look-ups in the kernel's ELF file. File names are relative to `root`."""

    def __init__(self, elf, root):
        self.elf, self.root = str(elf), pathlib.Path(root)
        self.build_id = build_id(elf)
        self.symbols = Symbols(elf)

    def look_up(self, frames):
        """Returns {return address: [(function, "file:line"), …]}, inlined functions first. The last function has the form "function+0x12"."""
        known = places(self.elf, self.root, frames)
        result = {}
        for frame in frames:
            symbol = self.symbols.frame(frame).removesuffix(" [kernel]")
            # An address that is in no function gets no line: functions that the linker has dropped still have lines, at addresses from 0 on.
            *inlined, (_, place) = known.get(frame, [("", "")]) if "+0x" in symbol else [("", "")]
            result[frame] = [*inlined, (symbol, place)]
        return result


class ProgramLines:
    """Look-ups in ELF files of programs, which it finds by their build ids. `paths`: files, and folders with files. File names are relative to
    `root`."""

    def __init__(self, paths, root):
        self.root = pathlib.Path(root)
        files = [file for path in map(pathlib.Path, paths) for file in (sorted(path.glob("*")) if path.is_dir() else [path])]
        self.programs = {build_id(path): str(path) for path in files if path.is_file()}
        self.programs.pop(None, None)

    def look_up(self, stacks):
        """Returns {(build id, return address): [(function, "file:line"), …]} for the frames of UserStacks, inlined functions first. Leaves out unknown
        addresses."""
        wanted = {}
        for stack in stacks:
            if stack.build_id in self.programs:
                wanted.setdefault(stack.build_id, set()).update(stack.frames)
        return {(program, frame): place for program, frames in wanted.items()
                for frame, place in places(self.programs[program], self.root, frames).items()}


def build_id(path):
    """Returns the build id of an ELF file in hexadecimal; None if it has none."""
    notes = subprocess.run(["readelf", "-n", str(path)], capture_output=True, text=True).stdout
    match = re.search(r"Build ID: ([0-9a-f]+)", notes)
    return match[1] if match else None


def places(elf, root, frames):
    """Returns {return address: [(function, "file:line"), …]}, inlined functions first. Leaves out unknown addresses. Looks up the byte before each
    address, since that is in the call instruction."""
    found = dwarf.places(elf, [frame - 1 for frame in frames])
    return {address + 1: [(ksyms.plain_name(name), f"{shorten(file, root)}:{line}") for name, file, line in place]
            for address, place in found.items()}


def shorten(file, root):
    """Returns a file's name relative to `root`, as "kern/src/pages.cc", also if the ELF file was built in another checkout."""
    parts = pathlib.PurePath(os.path.normpath(file)).parts
    for start in range(len(parts)):
        below = pathlib.PurePath(*parts[start:])
        if not below.is_absolute() and (root / below).is_file():
            return str(below)
    return file
