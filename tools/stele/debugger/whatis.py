"""Explains what is at an address: in the kernel's own words (kern/reach/describe.cc), and with source lines."""
import re
from itertools import groupby

from stele.debugger.files import description
from stele.debugger.source import backtrace_lines, code_line
from stele.debugger.tasks import Frame

_FRAME = re.compile(r"    ([0-9a-f]{16}) (?!\[)")  # of the kernel: of a program, the line has the program's name in brackets
_CODE = re.compile(r"(0x[0-9a-f]+)(?: is |, )code: ")


def whatis(kernel, address):
    """Yields the lines of the explanation. Further facts follow the first line, indented."""
    lines = description(kernel, address).splitlines()
    for are_frames, group in groupby(lines, lambda line: bool(_FRAME.match(line))):
        if are_frames:
            yield from backtrace_lines(kernel, [Frame(int(_FRAME.match(line)[1], 16)) for line in group])
        else:
            yield from (_with_place(kernel, line) for line in group)


def _with_place(kernel, line):
    """Adds the source line to the explanation of an address in code."""
    code = _CODE.search(line)
    return line[:code.end()] + code_line(kernel, int(code[1], 16)) if code else line
