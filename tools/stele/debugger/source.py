"""Formats code addresses with their functions, source files and lines."""
import pathlib

import gdb

from stele.debugger.symbols import Symbols
from stele.source_lines import places

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


def backtrace_lines(kernel, frames):
    """Yields a line for each of `frames` (tasks.py), and for each function that was inlined at the frame's address."""
    symbols = kernel.once(Symbols)
    known = places(gdb.current_progspace().filename, ROOT, [_after(frame) for frame in frames if frame.address])
    for frame in frames:
        if frame.note:
            yield f"    --- {frame.note}"
            continue
        *inlined, (_, place) = known.get(_after(frame), [("", "")])
        for function, inlined_place in inlined:
            yield f"    {'inlined':>16} {function} {inlined_place}"
        found = symbols.look_up(_after(frame) - 1)
        name = f"{found[0]}+{found[1] + (1 if frame.is_return else 0):#x}" if found else "?"
        yield f"    {frame.address:016x} {name} {place}".rstrip()


def _after(frame):
    """Returns the argument with which places() finds the frame's line. places() looks up the byte before its argument. So the result is
    the return address itself, or the address of the interrupted instruction plus one."""
    return frame.address if frame.is_return else frame.address + 1


def code_line(kernel, address):
    """Returns "FUNCTION+0x12 kern/src/pages.cc:34" for a code address; "" if no function contains the address."""
    found = kernel.once(Symbols).look_up(address)
    place = places(gdb.current_progspace().filename, ROOT, [address + 1]).get(address + 1, [("", "")])[-1][1]
    return f"{found[0]}+{found[1]:#x} {place}".rstrip() if found else ""
