#!/usr/bin/python3
"""Puts the addresses of a program's `ret` instructions into the program's section .stele.returns, for
probes on returns (docs/probes.md).

    python3 tools/stele/returns.py PREFIX PROGRAM    # in place, with PREFIXobjdump and PREFIXobjcopy

The section is not loaded into memory. Stripping the program's debugging information does not remove
the section. All numbers are little-endian:

    char magic[4] "SRET"; u32 version 1; u64 count; u64 address[count]

The addresses ascend. They are link-time addresses, like those in the program's symbol table.

A probe on a return replaces one byte of code and emulates the instruction. So every return must be the
one-byte `ret`; with any other form this program fails, and so does the build.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile

SECTION = ".stele.returns"
MAGIC, VERSION = b"SRET", 1
HEADER = struct.Struct("<4sIQ")


class Unprobed(Exception):
    """A return that cannot be probed."""


def returns_in(disassembly):
    """Returns the addresses of the return instructions in the output of `objdump -d`, ascending. Raises Unprobed for a return that is not the
    one-byte `ret`."""
    found = []
    for line in disassembly.splitlines():
        parts = line.split("\t")
        if len(parts) < 3 or not re.search(r"\b[il]?ret[lqw]?\b|\bsysret", parts[2].split("<")[0]):
            continue
        if parts[1].split() != ["c3"]:
            raise Unprobed(f"{line.strip()}: not a one-byte ret")
        found.append(int(parts[0].strip().rstrip(":"), 16))
    return sorted(found)


def encode(addresses):
    return HEADER.pack(MAGIC, VERSION, len(addresses)) + struct.pack(f"<{len(addresses)}Q", *addresses)


def decode(data):
    """Returns the addresses in the contents of the section. Raises ValueError for other data."""
    if len(data) < HEADER.size:
        raise ValueError("too short")
    magic, version, count = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION or len(data) != HEADER.size + 8 * count:
        raise ValueError("wrong header")
    return list(struct.unpack_from(f"<{count}Q", data, HEADER.size))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    prefix, program = sys.argv[1:]
    disassembly = subprocess.run([prefix + "objdump", "-d", "-w", program], capture_output=True, check=True, text=True).stdout
    try:
        addresses = returns_in(disassembly)
    except Unprobed as error:
        sys.exit(f"{program}: {error}")
    with tempfile.NamedTemporaryFile(prefix="stele-returns-") as section:
        section.write(encode(addresses))
        section.flush()
        new = program + ".new"
        subprocess.run([prefix + "objcopy", "--remove-section", SECTION, "--add-section", f"{SECTION}={section.name}", program, new], check=True)
        os.rename(new, program)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from stele import entry
    entry.run(main, "returns", failed=1)
