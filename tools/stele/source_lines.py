"""Turns "function+0x12 [kernel]" and "0x401000 [/bin/sh]" into file and line, with inlined functions, by the ELF files."""
import os
import pathlib
import re
import subprocess

from stele import ksyms


class SourceLines:
    """Look-ups in the kernel's ELF file; files are named from `root` on."""

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
        places = addr2line(self.elf, self.root, known.values())
        return {frame: places.get(address, []) for frame, address in known.items()}


class ProgramLines:
    """Look-ups in the programs of a folder, which are found by their build ids; files are named from `root` on."""

    def __init__(self, folder, root):
        self.root = pathlib.Path(root)
        self.programs = {build_id(path): str(path) for path in sorted(pathlib.Path(folder).glob("*")) if path.is_file()}
        self.programs.pop(None, None)

    def look_up(self, stacks):
        """{(build id, frame): [(function, "file:line"), …]} of UserStacks, the inlined functions first; without what is unknown."""
        wanted = {}
        for stack in stacks:
            for frame in stack.frames:
                address = re.match(r"0x([0-9a-f]+) ", frame)
                if address and stack.build_id in self.programs:
                    wanted.setdefault(stack.build_id, {})[frame] = int(address[1], 16) - 1
        found = {}
        for program, frames in wanted.items():
            places = addr2line(self.programs[program], self.root, frames.values())
            for frame, address in frames.items():
                if places.get(address, [("??", "")])[0][0] != "??":
                    found[program, frame] = places[address]
        return found


def build_id(path):
    """The build id of an ELF file in hexadecimal; None if it has none."""
    notes = subprocess.run(["readelf", "-n", str(path)], capture_output=True, text=True).stdout
    match = re.search(r"Build ID: ([0-9a-f]+)", notes)
    return match[1] if match else None


def addr2line(elf, root, addresses):
    """{address: [(function, "file:line"), …]}, the inlined functions first."""
    output = subprocess.run(["addr2line", "-e", elf, "-a", "-f", "-C", "-i"], input="".join(f"{address:#x}\n" for address in addresses),
                            check=True, capture_output=True, text=True).stdout
    places = {}
    lines = iter(output.splitlines())
    for line in lines:
        if line.startswith("0x"):
            current = places.setdefault(int(line, 16), [])
            continue
        current.append((ksyms.plain_name(line), shorten(next(lines), root)))
    return places


def shorten(place, root):
    """"kern/src/pages.cc:12": the file as it is called below `root`, also if the ELF file was built in another checkout."""
    file, _, line = place.partition(" (")[0].rpartition(":")
    parts = pathlib.PurePath(os.path.normpath(file)).parts
    for start in range(len(parts)):
        below = pathlib.PurePath(*parts[start:])
        if not below.is_absolute() and (root / below).is_file():
            return f"{below}:{line}"
    return f"{file}:{line}"
