"""Looks up kernel functions in the symbol table that the kernel itself uses (kern/core/symbols.cc), so that gdb prints the same names as the
kernel."""
import bisect
import struct


class Symbols:
    def __init__(self, kernel):
        start = kernel.label("ksyms_start")
        self.text = range(kernel.label("text_start"), kernel.label("text_end"))
        count, = struct.unpack("<I", kernel.read(start, 4))
        words = struct.unpack(f"<{2 * count + 1}I", kernel.read(start + 4, 4 * (2 * count + 1)))
        base = kernel.constant("image_base")
        self.addresses = [base + offset for offset in words[:count]]
        self._names = words[count:]
        self._letters = kernel.read(start + 4 * (2 * count + 2), words[-1]) if count else b""

    def look_up(self, address):
        """Returns (function, offset) of an address; None if the address is not in the kernel's code."""
        place = bisect.bisect_right(self.addresses, address) - 1
        if address not in self.text or place < 0:
            return None
        name = self._letters[self._names[place]:].partition(b"\0")[0]
        return name.decode(), address - self.addresses[place]

    def frame(self, return_address):
        """Formats a return address as the kernel's symbol_format() does."""
        found = self.look_up(return_address - 1)
        return f"{found[0]}+{found[1] + 1:#x} [kernel]" if found else f"{return_address:#x}"
