"""Finding the instruction that stores an entry into what keeps it (tools/stele/debugger/stores.py). gdb is a fake, which prints one function."""
import importlib
import sys
from types import SimpleNamespace

import pytest

CODE = """Dump of assembler code for function f:
   0xffffffff80100000 <+0>:\tmov    %rax,-0x7fbfe000(%rip)        # 0xffffffff80400010 <variable+16>
   0xffffffff80100007 <+7>:\tcall   0xffffffff80200000 <kmalloc>
=> 0xffffffff8010000c <+12>:\tmov    -0x7fbfe000(%rip),%rdx        # 0xffffffff80400010 <variable+16>
   0xffffffff80100013 <+19>:\tmovq   $0xffffffff80400010,(%rdx)
   0xffffffff8010001a <+26>:\tcmp    %rax,0xffffffff80400010
   0xffffffff80100021 <+33>:\tmov    %rax,0x10(%rdx,%rcx,8)
   0xffffffff80100026 <+38>:\tmov    %rax,0x18(%rbx)
   0xffffffff8010002a <+42>:\tmov    %rax,-0x7fbffff0(,%rcx,8)
   0xffffffff80100032 <+50>:\tmovups %xmm0,-0x7fbfe000(%rip)        # 0xffffffff80500010 <other>
   0xffffffff80100039 <+57>:\tmov    %rax,0x10
End of assembler dump.
"""
AFTER = 0xffffffff8010000c


@pytest.fixture(name="stores")
def with_fake_gdb(monkeypatch):
    asked = []
    monkeypatch.setitem(sys.modules, "gdb", SimpleNamespace(execute=lambda command, to_string: asked.append(command) or CODE, error=RuntimeError))
    monkeypatch.delitem(sys.modules, "stele.debugger.stores", raising=False)
    module = importlib.import_module("stele.debugger.stores")
    yield module
    assert asked[0] == "disassemble 0xffffffff8010000b"  # the byte before the return address is in the function
    monkeypatch.delitem(sys.modules, "stele.debugger.stores")


def test_a_store_into_a_variable(stores):
    """Neither a store before the call, nor a load, an immediate, a comparison, or a store into another variable. The address may be an array's, to which
    a register is added."""
    assert stores.store_into_variable(AFTER, range(0xffffffff80400000, 0xffffffff80400020)) == 0xffffffff8010002a
    assert stores.store_into_variable(AFTER, range(0xffffffff80500010, 0xffffffff80500018)) == 0xffffffff80100032
    assert stores.store_into_variable(AFTER, range(0xffffffff80600000, 0xffffffff80600018)) == 0


def test_a_store_into_a_member(stores):
    """The displacement must be the member's, and the source line must name the member."""
    lines = {0xffffffff80100013: "letters = 1;", 0xffffffff80100021: "other[i] = letter; // letters_of", 0xffffffff80100026: "box->letters[0] = letter;"}
    assert stores.store_into_member(AFTER, "letters", 0x8, 0x20, lambda address: lines.get(address, "")) == 0xffffffff80100026
    assert stores.store_into_member(AFTER, "letters", 0x20, 0x28, lambda address: "letters") == 0


def test_a_frame_that_is_in_no_function(stores, monkeypatch):
    def fails(command, to_string):
        raise RuntimeError("No function contains specified address.")
    assert stores.store_into_variable(AFTER, range(0xffffffff80400000, 0xffffffff80400020)) != 0
    monkeypatch.setattr(stores.gdb, "execute", fails)
    assert stores.store_into_variable(AFTER, range(0xffffffff80400000, 0xffffffff80400020)) == 0
