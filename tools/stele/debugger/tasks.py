"""Finds tasks, the CPUs that run them, and the backtraces of tasks. See kern/sched/task.h and kern/arch/x86_64/frames.cc."""
from dataclasses import dataclass

import gdb

from stele.call_frames import RBP, RSP, frame_addresses
from stele.debugger.memory import Layout, Unreadable, enumerators

_MOST_FRAMES, _MOST_TRAPS = 256, 8  # limits, as a stack may be corrupted: Frames up to the next trap, and traps of a backtrace
_MASK = (1 << 64) - 1


@dataclass
class Frame:
    """A step of a backtrace: a code address with its stack frame; or, if `note` is not empty, a line of text between two frames."""

    address: int = 0
    is_return: bool = True  # True: `address` is a return address; False: it is the address of an interrupted instruction
    note: str = ""
    base: int = 0  # address of the saved rbp, where this stack frame ends; 0: not known


class Cpu:
    """A CPU: the kernel's CpuTables, and the gdb thread that represents the CPU and has its registers."""

    def __init__(self, tables):
        self.tables, self.id, self.current = tables, tables.cpu.id, tables.cpu.current
        self.thread = next((thread for thread in gdb.selected_inferior().threads() if thread.ptid[1] - 1 == tables.cpu.apic_id), None)

    def registers(self, names=("rip", "rsp", "rbp", "cs")):
        """Returns a tuple with the values of the registers `names`. Raises Unreadable."""
        if not self.thread:
            raise Unreadable(f"there are no registers of CPU {self.id}")
        before = gdb.selected_thread()
        try:
            self.thread.switch()
            frame = gdb.newest_frame()
            return tuple(int(frame.read_register(name)) & _MASK for name in names)
        finally:
            if before and before.is_valid():
                before.switch()


def cpus(kernel):
    """The CPUs that have been started."""
    layout = Layout.of("CpuTables")
    start = kernel.address_of("tables", "arch/x86_64/cpu.cc")
    count = kernel.variable("count", "arch/x86_64/cpu.cc")
    found = (kernel.at("CpuTables", start + number * layout.size) for number in range(count))
    return [Cpu(tables) for tables in found if tables.cpu.self]


class Task:
    def __init__(self, kernel, structure, cpu):
        self.kernel, self.structure, self.cpu = kernel, structure, cpu  # `cpu`: the Cpu that runs the task, or None
        self.address, self.id, self.pid = structure.address, structure.id, structure.pid
        self.name = structure.name.decode("utf-8", "replace")
        self.state = enumerators("TaskState").get(structure.state, "?").removeprefix("k").lower()
        if cpu:
            self.state = "running"
        elif self.state == "running":  # an idle task is always in this state
            self.state = "runnable"

    def __str__(self):
        words = f"task {self.id} {self.name}" + (f", pid {self.pid}" if self.pid else "")
        return f"{words}, {self.state} on CPU {self.cpu.id if self.cpu else self.structure.cpu}"

    def backtrace(self):
        """Returns the Frames of the task's backtrace as a list, innermost first."""
        if not self.cpu:
            # Saved by context_switch(), at ascending addresses from the stack pointer: r15 r14 r13 r12 rbx rbp, return address.
            saved = self.structure.context.stack_pointer
            rbp, rip = self.kernel.word(saved + 40), self.kernel.word(saved + 48)
            return [Frame(rip, base=rbp), *_callers(self.kernel, rbp)]
        rip, rsp, rbp, cs = self.cpu.registers()
        if cs & 3 == 3:
            return [Frame(note=f"in user mode, rip {rip:x} rsp {rsp:x}")]
        return _interrupted(self.kernel, rip, rsp, rbp)

    def frame_at(self, address):
        """Returns the Frame whose stack frame contains the word at `address`; None if there is none."""
        return next((frame for frame in self.kernel.once(_frames_of, self) if address < frame.base + 16), None)


def _frames_of(_kernel, task):
    """Returns the task's Frames whose `base` is known, innermost first."""
    return [frame for frame in task.backtrace() if frame.base]


def _interrupted(kernel, rip, rsp, rbp, traps=0):
    """Returns the Frames of a function that was interrupted at the instruction `rip`, and of its callers. Before the function has set up its stack
    frame, and after it has removed the frame, rbp points to the caller's stack frame; the return address is then found through rsp."""
    frames = [Frame(rip, is_return=False, base=rbp)]
    register, offset = frame_addresses(gdb.current_progspace().filename, [rip]).get(rip, (RBP, 0))
    if register == RSP:
        try:
            frames.append(Frame(kernel.word(rsp + offset - 8)))
            if offset > 8:  # the function has pushed rbp first
                rbp = kernel.word(rsp + offset - 16)
            frames[0].base, frames[1].base = rsp + offset - 16, rbp
            if _is_entry(kernel, frames[-1].address):
                return frames + _trap(kernel, rsp + offset, traps)
        except Unreadable:
            return frames
    return frames + _callers(kernel, rbp, traps)


def _callers(kernel, rbp, traps=0):
    """Follows the chain of stack frames from rbp on, and returns the Frames of the callers. If the chain ends at a trap, continues with the
    code that the trap interrupted."""
    frames = []
    while rbp and rbp % 8 == 0 and rbp >> 63 and len(frames) < _MOST_FRAMES:
        try:
            below, address = kernel.word(rbp), kernel.word(rbp + 8)
        except Unreadable:
            break
        if address == 0:
            break
        frames.append(Frame(address, base=below))
        if _is_entry(kernel, address):
            return frames + _trap(kernel, rbp + 16, traps)
        if below <= rbp:
            break
        rbp = below
    return frames


def _is_entry(kernel, address):
    return kernel.label("trap_entries_start") < address <= kernel.label("trap_entries_end")


def _trap(kernel, address, traps):
    """Returns the Frames of the code that a trap has interrupted, and of the callers of that code. `address`: the trap's TrapFrame. `traps`: the
    number of traps that are already in the backtrace."""
    try:
        frame = kernel.at("TrapFrame", address)
    except Unreadable:
        return []
    if frame.cs & 3 == 3:
        return [Frame(note=f"from user mode, rip {frame.rip:x} rsp {frame.rsp:x}")]
    if traps == _MOST_TRAPS:
        return [Frame(note="and so on")]
    return [Frame(note=f"trap {frame.vector}"), *_interrupted(kernel, frame.rip, frame.rsp, frame.rbp, traps + 1)]


def all_tasks(kernel):
    """Returns all Tasks in order of creation; the idle tasks are last."""
    running = {cpu.current: cpu for cpu in cpus(kernel)}
    link, head = Layout.of("Task").offset("all_link"), kernel.address_of("all_tasks")
    node, found = kernel.word(head), []
    while node not in (0, head) and len(found) < 1 << 20:
        found.append(node - link)
        node = kernel.word(node)
    layout, start = Layout.of("Task"), kernel.address_of("idle_tasks")
    found += [start + cpu.id * layout.size for cpu in running.values()]
    return [Task(kernel, kernel.at("Task", address), running.get(address)) for address in found]


def find_task(kernel, word):
    """Finds a task by its number, name or address. Raises Unreadable."""
    tasks = all_tasks(kernel)
    try:
        number = int(word, 0)
    except ValueError:
        found = [task for task in tasks if task.name == word]
    else:
        found = [task for task in tasks if number in (task.address, task.id) and task.id]
    if not found:
        raise Unreadable(f"no task {word}: `tasks` lists them")
    if len(found) > 1:
        raise Unreadable(f"several tasks are called {word}: " + " ".join(str(task.id) for task in found))
    return found[0]
