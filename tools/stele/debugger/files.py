"""What files of #mem contain at the moment at which the kernel has stopped. The kernel's own code makes it (emulator.py)."""
import struct

from stele.debugger.arenas import Arena
from stele.debugger.emulator import Emulator
from stele.debugger.memory import Layout, constant
from stele.debugger.ref_classes import RefClass


def kmemstat(kernel):
    """Returns the text of #mem/kmemstat."""
    return _printed(kernel, "mem_print_kmemstat(Text&)", "Text", ("data_", "capacity_", "size_"))


def description(kernel, address):
    """Returns the first part of the answer of #mem/whatis: what is at the address."""
    return _printed(kernel, "reach::describe(reach::Writer&, unsigned long)", "reach::Writer", ("buffer_", "size_", "length_"), address)


def dump(kernel, owner):
    """Returns the text of #mem/kmemtrace/NAME. `owner`: a Cache, an Arena or a RefClass."""
    emulator = kernel.once(Emulator)
    kind = constant("TraceSource::kArena") if isinstance(owner, Arena) else constant("TraceSource::kReferences") if isinstance(owner, RefClass) else 0
    opened = emulator.made("trace_dump_open(TraceSource)", owner.address | kind)
    return emulator.read_all(emulator.made, "trace_dump_read(TraceDump*, char*, unsigned long, unsigned long)", opened).decode("utf-8", "replace")


def tracedump(kernel):
    """Returns the bytes of #mem/tracedump."""
    emulator = kernel.once(Emulator)
    opened = emulator.made("trace_binary_open()")
    return emulator.read_all(emulator.call, "trace_binary_read(TraceBinaryDump*, char*, unsigned long, unsigned long)", opened)


def _printed(kernel, function, writer, fields, *arguments):
    """Calls a function that prints to an object of the class `writer`, and returns the text. The object's `fields` are the address, the size and the used
    size of memory for the text. This memory is the emulator's, because an allocation would change what is printed."""
    emulator, layout = kernel.once(Emulator), Layout.of(writer)
    made, (address, size, used) = bytearray(layout.size), map(layout.offset, fields)
    struct.pack_into("<Q", made, address, emulator.buffer)
    struct.pack_into("<Q", made, size, emulator.buffer_size)
    emulator.write(emulator.result, bytes(made))
    emulator.call(function, emulator.result, *arguments)
    length, = struct.unpack("<Q", emulator.read(emulator.result + used, 8))
    return emulator.read(emulator.buffer, min(length, emulator.buffer_size - 1)).decode("utf-8", "replace")
