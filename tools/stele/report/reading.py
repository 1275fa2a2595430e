"""Determines the format of an input file from the file's content, and reads the file into a Profile.

Only regular files are read, and text only up to MOST_TEXT bytes.
"""
import os
import stat

from stele.report import folded, from_dump, from_leaktest, from_memleak, from_stackcount, from_trace_text
from stele.report.profile import ReportError
from stele.tracedump import MAGIC

HEAD = 4096  # bytes at the beginning of the file that tell dumps, cores, pprof profiles and text apart
MOST_TEXT = 1 << 30


def read(path, lookup, measure="bytes"):
    """Returns the Profile of the file `path`. `measure`: the unit of the numbers in folded stacks. Raises ReportError with a message that begins with
    the name of the file that is wrong: `path`, or the ELF file of the kernel."""
    try:
        head, size = beginning(path)
        return reader_of(path, head, size)(path, lookup, measure)
    except ReportError as error:
        names = [str(path)] + ([str(lookup.kernel_file)] if lookup.kernel_file else [])
        if str(error).startswith(tuple(f"{name}: " for name in names)):
            raise
        raise ReportError(f"{path}: {error}") from error
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise ReportError(f"{path}: too large for the memory that is here") from error


def beginning(path):
    """Returns (first bytes, size) of a regular file. Raises ReportError for any other file, because a device may be endless."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ReportError(f"{path}: not a regular file")
        return file.read(HEAD), status.st_size


def reader_of(path, head, size):
    if not head:
        raise ReportError(f"{path}: empty")
    if head.startswith(MAGIC[:2]):
        return lambda path, lookup, _: from_dump.read(path, lookup)
    if head.startswith(b"\x7fELF"):
        return read_core
    if head.startswith(b"\x1f\x8b") or (head[:1] == b"\x0a" and b"\0" in head):
        return read_pprof
    return lambda path, lookup, measure: read_text(path, lookup, measure, size)


def read_core(path, lookup, _measure):
    from stele.report import from_core
    return from_core.read(path, lookup)


def read_pprof(path, _lookup, _measure):
    try:
        from stele.report import pprof
    except ImportError as error:
        raise ReportError(f"{path}: pprof cannot be read here: {error}") from error
    return pprof.read(path)


def read_text(path, lookup, measure, size):
    if size > MOST_TEXT:
        raise ReportError(f"{path}: no text of any form that is known is so large")
    with open(path, "rb") as file:
        data = file.read(MOST_TEXT)
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ReportError(f"{path}: no dump, core, profile, report or folded stacks") from None
    if from_trace_text.HEADING.search(text):
        return from_trace_text.read(path, text, lookup)
    if from_leaktest.is_report(text):
        return from_leaktest.read(path, text)
    if from_memleak.HEADING.search(text):
        return from_memleak.read(path, text)
    if from_stackcount.HEADING.search(text):
        return from_stackcount.read(path, text)
    if folded.is_folded(text.rstrip("\n")):
        return folded.read(path, text, measure)
    raise ReportError(f"{path}: no dump, core, profile, report or folded stacks")
