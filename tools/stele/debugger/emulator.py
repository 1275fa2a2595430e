"""Executes functions of a stopped kernel on a copy of its memory, so that gdb's commands print what the kernel itself would print. The guest or core
does not change.

Unicorn emulates the processor. A page is copied when the emulated code first touches it. All CPUs stand still, so the emulated code has nobody to wait
for: it takes a lock even if a CPU or task has it, and does not stop the other CPUs (_PATCHES). The data that such a lock guards may be in the middle of
a change. Code that then reads where nothing is mapped, panics, or does not end, is given up.
"""
import struct

import gdb

from stele.debugger.memory import PAGE, Layout, Unreadable
from stele.debugger.memory_map import REGISTERS, stacks_in_use
from stele.debugger.tasks import cpus
from stele.ksyms import nm

_STACK, _RESULT, _BUFFER, _END = 0x100000, 0x10f000, 0x110000, 0x120000  # in user space, where the kernel has nothing; the stack ends at _RESULT
_SECONDS = 60  # for a call
_INTERRUPTS_ON = 0x200  # in the register of flags
_ARGUMENTS = ("RDI", "RSI", "RDX", "RCX", "R8")
_RETURN, _ILLEGAL = bytes.fromhex("c3"), bytes.fromhex("0f0b")
_CALL = bytes.fromhex("4889f8 4889f7 ffe0")  # mov %rdi, %rax; mov %rsi, %rdi; jmp *%rax
# The functions that wait for other CPUs or tasks, and the code in place of each. Which of the spinlock's the kernel has depends on its configuration.
_PATCHES = {"Spinlock::spin()": _RETURN, "Spinlock::lock()": _RETURN, "Spinlock::unlock()": _RETURN, "Mutex::lock()": _RETURN, "Mutex::unlock()": _RETURN,
            "panic": _ILLEGAL, "reach::with_world_stopped(void (*)(void*), void*)": _CALL}


class Emulator:
    """A processor, and a copy of the kernel's memory that the calls change."""

    buffer, buffer_size = _BUFFER, _END - _BUFFER  # memory for arguments and results of calls
    result = _RESULT

    def __init__(self, kernel):
        try:
            import unicorn  # pylint: disable=import-outside-toplevel  # the other commands do not need it
            from unicorn import x86_const
        except ImportError as error:
            raise Unreadable("the Python module unicorn is missing: scripts/setup gdb installs it") from error
        self._kernel, self._error, self._registers, self._addresses = kernel, unicorn.UcError, x86_const, kernel.once(_addresses)
        self._processor = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        self._processor.mem_map(_STACK, _END + PAGE - _STACK)
        self._processor.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED, self._map)
        for name, code in _PATCHES.items():
            if name in self._addresses:
                self.write(self._addresses[name], code)
        found = cpus(kernel)
        for cpu in found:
            self._store_registers(cpu)
        self._become_idle(found[0].tables.cpu)

    def _become_idle(self, cpu):
        """Becomes a copy of the Cpu, which runs its idle task and holds no lock."""
        layout = Layout.of("Cpu")
        self.write(cpu.address_of("current"), struct.pack("<Q", self._kernel.address_of("idle_tasks") + cpu.id * Layout.of("Task").size))
        for name in ("interrupt_depth", "preempt_off", "need_resched", "in_nmi", "held_locks", "held_ranks"):
            self.write(cpu.address_of(name), bytes(layout.fields[name][1].size))
        self._set("GS_BASE", cpu.self)
        self._set("EFLAGS", _INTERRUPTS_ON)

    def _store_registers(self, cpu):
        """Stores a CPU's registers below its stack, and its stack pointer where a search through memory finds it, as reach::with_world_stopped() does."""
        registers, top = dict(zip(REGISTERS, cpu.registers(REGISTERS), strict=True)), cpu.tables.cpu.kernel_stack
        in_kernel = registers["cs"] & 3 != 3
        begin = next((begin for begin, end in stacks_in_use(self._kernel, cpu, registers["rsp"]) if end == top), top) if in_kernel else top
        if begin < top:
            begin -= 8 * len(registers)
            self.write(begin, struct.pack(f"<{len(registers)}Q", *registers.values()))
        self.write(self._addresses["reach::(anonymous namespace)::stack_pointers"] + 8 * cpu.id, struct.pack("<Q", begin))

    def _map(self, _processor, _access, address, size, _value, _data):
        """Copies the pages of an access to memory that is not mapped. Returns False if the kernel has no memory there."""
        try:
            self._copy(address, size)
            return True
        except Unreadable:
            return False

    def _copy(self, address, size):
        for start in range(address // PAGE * PAGE, address + size, PAGE):
            data = self._kernel.read(start, PAGE)
            try:
                self._processor.mem_map(start, PAGE)
            except self._error:  # the page is copied already
                continue
            self._processor.mem_write(start, data)

    def _set(self, register, value):
        self._processor.reg_write(getattr(self._registers, f"UC_X86_REG_{register}"), value)

    def read(self, address, size):
        """Returns bytes of the result or the buffer."""
        return bytes(self._processor.mem_read(address, size))

    def write(self, address, data):
        if address >= _END:
            self._copy(address, len(data))
        self._processor.mem_write(address, data)

    def call(self, function, *arguments):
        """Calls a function of the kernel. Returns the register rax. Raises Unreadable."""
        self.write(_RESULT - 8, struct.pack("<Q", _END))
        for register, value in zip(("RSP", *_ARGUMENTS), (_RESULT - 8, *arguments)):
            self._set(register, value)
        try:
            self._processor.emu_start(self._addresses[function], _END, timeout=_SECONDS * 1_000_000)
        except self._error as error:
            raise Unreadable(f"memory is inconsistent: {function.partition('(')[0]}: {error}") from error
        if self._processor.reg_read(self._registers.UC_X86_REG_RIP) != _END:
            raise Unreadable(f"memory is inconsistent: {function.partition('(')[0]} does not end")
        return self._processor.reg_read(self._registers.UC_X86_REG_RAX)

    def made(self, function, *arguments):
        """Calls a function that returns a Result with a pointer or a number. Returns this value. Raises Unreadable if it is an error."""
        self.call(function, _RESULT, *arguments)
        value, is_value = struct.unpack("<Q?", self.read(_RESULT, 9))
        if not is_value:
            raise Unreadable(f"{function.partition('(')[0]} fails: error {value & 0xffffffff}")
        return value

    def read_all(self, call, function, file):
        """Returns the contents of an open file, which the kernel reads by `function`. `call`: the method to call it by."""
        data = b""
        while size := call(function, file, _BUFFER, self.buffer_size, len(data)):
            data += self.read(_BUFFER, size)
        return data


def _addresses(_kernel):
    """Returns {name: address} of the kernel's functions and variables."""
    lines = nm(gdb.current_progspace().filename)
    return {name: int(address, 16) for address, _, name in (line.split(" ", 2) for line in lines)}
