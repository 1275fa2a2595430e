"""Finds the instruction that stores an entry into a variable or into a member of an object, in the code behind the call that allocates the entry."""
import re

import gdb

_LINE = re.compile(r"\s*(?:=>)?\s*0x(?P<address>[0-9a-f]+) <\+\d+>:\s+(?P<name>\w+)\s+(?P<operands>[^#]*)(?:#\s*0x(?P<rip>[0-9a-f]+))?")
_MEMORY = re.compile(r"(?P<minus>-?)(?:0x(?P<value>[0-9a-f]+))?(?P<base>\([^)]*\))?$")
_STORE = re.compile(r"mov[bwlq]?$|xchg|cmpxchg|movups|movaps|movhps|movlps")
_ADDRESSES = 1 << 64


def store_into_variable(return_address, variable):
    """Returns the address of the first instruction that stores into `variable`, a range of addresses, after the call that returns to `return_address`,
    in the same function; 0 if there is none. A variable whose address is in a register is not seen."""
    return next((at for at, target, rip in _stores(return_address) if (rip or target) in variable), 0)


def store_into_member(return_address, name, start, end, source_line):
    """The same for a member of an object, which has this name and extends from `start` to `end`. The displacement of the store must fit, and the source
    line must have the name: `source_line(address)` returns it."""
    return next((at for at, target, rip in _stores(return_address) if not rip and start <= target < end
                 and re.search(rf"\b{re.escape(name)}\b", source_line(at))), 0)


def _stores(return_address):
    """Yields (address of a store; its displacement, which is the address if there is no register; the address if it is relative to the instruction, or 0)
    for the instructions of a function after an address."""
    try:
        text = gdb.execute(f"disassemble {return_address - 1:#x}", to_string=True)
    except gdb.error:
        return
    for line in map(_LINE.match, text.splitlines()):
        if not line or int(line["address"], 16) < return_address or not _STORE.match(line["name"]):
            continue
        operand = re.split(r",(?![^(]*\))", line["operands"].strip())[-1]
        memory = _MEMORY.match(operand.removeprefix("%ds:"))
        if memory and (memory["value"] or memory["base"]):
            displacement = int(memory["value"] or "0", 16)
            yield int(line["address"], 16), (-displacement if memory["minus"] else displacement) % _ADDRESSES, int(line["rip"] or "0", 16)
