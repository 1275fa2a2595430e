"""Finds an instruction that stores into a variable."""
import re

import gdb

_LINE = re.compile(r"\s*(?:=>)?\s*0x(?P<address>[0-9a-f]+) <\+\d+>:\s+(?P<name>\w+)\s+(?P<operands>[^#]*)(?:#\s*0x(?P<rip>[0-9a-f]+))?")
_DISPLACEMENT = re.compile(r"(?P<minus>-?)0x(?P<value>[0-9a-f]+)(?P<base>\(%rip\)|\([^)]*\))?$")
_STORES = re.compile(r"mov[bwlq]?$|xchg|cmpxchg|movnti|movups|movaps|movq|movhps")
_WORD = 1 << 64


def store_after(kernel, return_address, variable):
    """Returns the address of the first instruction that stores into `variable`, a range of addresses, after the call that returns to `return_address`,
    in the same function; 0 if there is none. An address in a register is not seen."""
    try:
        text = gdb.execute(f"disassemble {return_address - 1:#x}", to_string=True)
    except gdb.error:
        return 0
    for line in map(_LINE.match, text.splitlines()):
        if line and int(line["address"], 16) >= return_address and _STORES.match(line["name"]) and _target(line) in variable:
            return int(line["address"], 16)
    return 0


def _target(line):
    """Returns the address to which an instruction in AT&T's syntax stores, without the registers that are added; -1 if it is no memory."""
    operand = re.split(r",(?![^(]*\))", line["operands"].strip())[-1]
    if operand.endswith("(%rip)"):
        return int(line["rip"], 16) if line["rip"] else -1
    found = _DISPLACEMENT.match(operand.removeprefix("%ds:").removeprefix("%gs:") if not operand.startswith("%gs:") else "")
    if not found or operand.startswith("$"):
        return -1
    return (-int(found["value"], 16) if found["minus"] else int(found["value"], 16)) % _WORD
