"""Finds the functions, files and lines of addresses in the kernel and in programs, inlined functions
included. The information comes from the ELF files."""
import os
import pathlib
import re
import subprocess

from stele import dwarf, ksyms
from stele.tracedump import Symbols


class SourceLines:
    """Look-ups in the kernel's ELF file. The names of source files are relative to `root`."""

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
            # An address that is in no function gets no line, even if the debugging information has a line for the address. Such a line
            # belongs to a function that the linker has dropped: the lines of dropped functions remain, at addresses from 0 on.
            *inlined, (_, place) = known.get(frame, [("", "")]) if "+0x" in symbol else [("", "")]
            result[frame] = [*inlined, (symbol, place)]
        return result


class ProgramLines:
    """Look-ups in the ELF files of programs. A build id selects the file. `paths`: the ELF files, or folders with ELF files. The names of source
    files are relative to `root`."""

    def __init__(self, paths, root):
        self.root = pathlib.Path(root)
        files = [file for path in map(pathlib.Path, paths) for file in (sorted(path.glob("*")) if path.is_dir() else [path])]
        self.programs = {build_id(path): str(path) for path in files if path.is_file()}
        self.programs.pop(None, None)

    def look_up(self, stacks):
        """Returns {(build id, return address): [(function, "file:line"), …]} for the frames of UserStacks, inlined functions first. Leaves out
        unknown addresses."""
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
    return address, because that byte belongs to the call instruction."""
    found = dwarf.places(elf, [frame - 1 for frame in frames])
    return {address + 1: [(ksyms.plain_name(name), f"{shorten(file, root)}:{line}") for name, file, line in place]
            for address, place in found.items()}


def shorten(file, root):
    """Returns a file's name relative to `root`, for example "kern/src/pages.cc". This works for ELF files that were built in another checkout, too:
    leading folders are dropped until the name is that of a file in `root`. If there is no such file, the name is returned unchanged."""
    parts = pathlib.PurePath(os.path.normpath(file)).parts
    for start in range(len(parts)):
        below = pathlib.PurePath(*parts[start:])
        if not below.is_absolute() and (root / below).is_file():
            return str(below)
    return file
