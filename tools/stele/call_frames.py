"""Finds the return address of an interrupted function. The function may have been interrupted at any instruction, even before it made its stack
frame. Uses the call frame information of the ELF file. Debian's libdw reads this information; ctypes calls libdw, as in dwarf.py.
"""
import ctypes

from stele.dwarf import READ, library

OP_BREGX = 0x92  # a register and an offset: the only form that the compiler uses for a frame's address
RBP, RSP = 6, 7  # DWARF's numbers of registers


class Op(ctypes.Structure):
    """libdw's Dwarf_Op."""

    _fields_ = [("atom", ctypes.c_uint8), ("number", ctypes.c_uint64), ("number2", ctypes.c_uint64), ("offset", ctypes.c_uint64)]


def frame_addresses(path, addresses):
    """Returns {code address: (register, offset)}: at this instruction, register plus offset is the canonical frame address, which is 8 bytes above
    the return address on the stack. Leaves out addresses for which the ELF file has no such information."""
    lib = library()
    lib.dwarf_getcfi.restype, lib.dwarf_getcfi.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    lib.dwarf_cfi_addrframe.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p)]
    lib.dwarf_frame_cfa.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(Op)), ctypes.POINTER(ctypes.c_size_t)]
    with open(path, "rb", buffering=0) as file:
        dwarf = lib.dwarf_begin(file.fileno(), READ)
        if not dwarf:
            return {}
        try:
            information = lib.dwarf_getcfi(dwarf)
            return {address: frame for address in set(addresses) if (frame := information and _frame_address(lib, information, address))}
        finally:
            lib.dwarf_end(dwarf)


def _frame_address(lib, information, address):
    frame, ops, count = ctypes.c_void_p(), ctypes.POINTER(Op)(), ctypes.c_size_t()
    if lib.dwarf_cfi_addrframe(information, address, frame) != 0:
        return None
    try:
        if lib.dwarf_frame_cfa(frame, ops, count) != 0 or count.value != 1 or ops[0].atom != OP_BREGX:
            return None
        return ops[0].number, ctypes.c_int64(ops[0].number2).value
    finally:
        ctypes.CDLL(None).free(frame)
