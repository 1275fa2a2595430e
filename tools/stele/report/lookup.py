"""Turns return addresses of the kernel and of programs into Frames with names, from ELF files.

Finds the ELF files by their build ids only, since a file of another build would silently give wrong names. Without the right file, the names of
frames are addresses.
"""
import pathlib
from types import SimpleNamespace

from stele.build import ROOT, build_folder
from stele.elfcore import CoreError, check_kernel
from stele.leaks import without_allocator
from stele.report.profile import Frame, ReportError
from stele.source_lines import ProgramLines, SourceLines, build_id


class Lookup:
    """Finds ELF files, and looks up addresses in them. `kernel`: the kernel's ELF file; None: the file in build/ with the right build id. `programs`:
    ELF files of programs, and folders with such files; None: build/user/bin."""

    def __init__(self, kernel=None, programs=None, root=ROOT):
        self.root, self.kernel_file = pathlib.Path(root), kernel
        self.program_files = [build_folder() / "user/bin"] if programs is None else programs
        self._kernels, self._programs, self._known = {}, None, {}

    def kernel(self, wanted):
        """Returns the SourceLines of the kernel with the build id `wanted`; None if there is no such file. Raises ReportError if the constructor was
        given the file of another kernel."""
        if wanted not in self._kernels:
            self._kernels[wanted] = self._find_kernel(wanted)
        return self._kernels[wanted]

    def _find_kernel(self, wanted):
        if self.kernel_file:
            given = self.given_kernel()
            if given.build_id != wanted:
                raise ReportError(f"{self.kernel_file}: the kernel has the build id {given.build_id}, not {wanted or 'none'} as the file")
            return given
        build = build_folder()
        for file in [*build.glob("stele.elf"), *sorted(build.glob("variant/*/stele.elf"))]:
            if wanted and build_id(file) == wanted:
                return SourceLines(file, self.root)
        return None

    def given_kernel(self):
        """Returns the SourceLines of the file that the constructor was given. Raises ReportError if the file is not a kernel, or has no build
        id."""
        try:
            check_kernel(self.kernel_file)
        except CoreError as error:
            raise ReportError(str(error)) from error
        return SourceLines(self.kernel_file, self.root)

    def kernel_frames(self, wanted, stacks):
        """Returns {stack: Frames}. Leaves out inlined functions of the allocator. `stacks`: tuples of return addresses in the kernel with the build
        id `wanted`."""
        kernel = self.kernel(wanted)
        if not kernel:
            return {stack: tuple(Frame(f"{address:#x}", address=address, build_id=wanted) for address in stack) for stack in stacks}
        places = kernel.look_up({address for stack in stacks for address in stack})
        result = {}
        for stack in stacks:
            places_of_stack = without_allocator([places[address] for address in stack])
            result[stack] = tuple(frame for address, place in zip(stack, places_of_stack)
                                  for frame in frames_of(place, address, "kernel", wanted))
        return result

    def program_frames(self, stacks):
        """Returns {stack: Frames}. `stacks`: tuples (build id of the program, path of the program, return addresses)."""
        if self._programs is None:
            self._programs = ProgramLines(self.program_files, self.root)
        wanted = [SimpleNamespace(build_id=program, frames=addresses) for program, _, addresses in stacks]
        places = self._programs.look_up(wanted)
        return {(program, path, addresses): tuple(
            frame for address in addresses
            for frame in frames_of(places.get((program, address)) or [(f"{address:#x}", "")], address, path or "program", program))
            for program, path, addresses in stacks}


def frames_of(place, address, module, program):
    """Returns the Frames of a return address. `place`: [(function, "file:line"), …], inlined functions first; `program`: build id of the module."""
    last = len(place) - 1
    return [frame_of(function, where, i < last, module, address, program) for i, (function, where) in enumerate(place)]


def frame_of(function, where, inlined=False, module="kernel", address=0, program=""):
    """Returns a Frame. `function`: with or without an offset; `where`: "file:line" or ""; `program`: build id of the module."""
    file, _, line = where.rpartition(":")
    known = line.isdecimal() and not file.endswith("??")
    return Frame(function.partition("+0x")[0], file if known else "", int(line) if known else 0, inlined, module, address, program)
