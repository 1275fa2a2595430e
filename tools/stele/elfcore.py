"""Reads ELF cores that QEMU writes of a guest (dump-guest-memory): checks that a core is complete, and finds the kernel that was running."""
import os
import struct

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_CORE, _EXECUTABLE, _X86_64, _LOAD, _NOTE, _MANY = 4, 2, 62, 1, 4, 0xffff
_BUILD_ID = b"GNU\0"


class CoreError(Exception):
    """The file is incomplete, or is not the expected core of a guest or kernel. The message is one line."""


class Elf:
    """A 64-bit ELF file of x86-64, and its segments. All methods raise CoreError."""

    def __init__(self, path, kind):
        self.path = path
        try:
            self.file = open(path, "rb")
        except OSError as error:
            raise CoreError(f"{path}: {error.strerror}") from error
        self.size = os.fstat(self.file.fileno()).st_size
        header = self._at(0, _HEADER.size)
        magic, width, order, file_kind, machine, _, _, programs, sections, _, _, size, count, _, _, _ = _HEADER.unpack(header)
        what = "a core" if kind == _CORE else "a kernel"
        if magic != b"\x7fELF" or (width, order, machine, file_kind) != (2, 1, _X86_64, kind) or size != _PROGRAM.size:
            raise CoreError(f"{path}: not {what} of x86-64")
        if count == _MANY:
            count = _SECTION.unpack(self._at(sections, _SECTION.size))[7]
        self.segments = [_PROGRAM.unpack(self._at(programs + i * size, size)) for i in range(count)]
        for _, _, offset, _, _, in_file, _, _ in self.segments:
            if offset + in_file > self.size:
                raise CoreError(f"{path}: cut off: it has {self.size} bytes of {max(s[2] + s[5] for s in self.segments)}")

    def _at(self, offset, size):
        # In a damaged file, offsets may be larger than pread() allows.
        data = os.pread(self.file.fileno(), size, offset) if offset <= self.size else b""
        if len(data) < size:
            raise CoreError(f"{self.path}: cut off")
        return data

    def read(self, address, size):
        """Returns `size` bytes of memory at a virtual address; b"" if the file does not have all of them."""
        for kind, _, offset, start, _, in_file, _, _ in self.segments:
            if kind == _LOAD and start <= address and address + size <= start + in_file:
                return self._at(offset + address - start, size)
        return b""

    def build_id_note(self):
        """Returns (address, bytes) of the note with the build id; (0, b"") if there is none."""
        for kind, _, offset, start, _, in_file, _, _ in self.segments:
            note = self._at(offset, in_file) if kind == _NOTE else b""
            at = note.find(_BUILD_ID) - 12
            if at >= 0:
                size = 16 + struct.unpack_from("<I", note, at + 4)[0]
                return start + at, note[at:at + size]
        return 0, b""


def check_kernel(kernel):
    """Raises CoreError if the file is not a kernel, or has no build id."""
    if not Elf(kernel, _EXECUTABLE).build_id_note()[1]:
        raise CoreError(f"{kernel}: a kernel without a build id")


def kernel_of(core, kernels):
    """Returns the file among `kernels` whose build id is in the core's memory. Raises CoreError."""
    opened = Elf(core, _CORE)
    for kernel in kernels:
        address, note = Elf(kernel, _EXECUTABLE).build_id_note()
        if note and opened.read(address, len(note)) == note:
            return kernel
    names = ", ".join(map(str, kernels)) or "none, since none was built"
    raise CoreError(f"{core}: no core of a kernel that is here ({names}): --kernel gives another")
