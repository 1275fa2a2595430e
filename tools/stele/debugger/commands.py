"""gdb's commands."""
import json
import os

import gdb

from stele.debugger import files
from stele.debugger.alive import why_alive
from stele.debugger.caches import page_of
from stele.debugger.kept import keepers
from stele.debugger.memory import Kernel, Unreadable
from stele.debugger.moment import lost_objects, moment, reference_moment
from stele.debugger.refs import references
from stele.debugger.source import backtrace_lines
from stele.debugger.tasks import all_tasks, find_task
from stele.debugger.traces import Traces
from stele.debugger.unreachable import unreachable
from stele.debugger.whatis import whatis
from stele.tracedump import TraceDump


class _Command(gdb.Command):
    """A command that prints lines(kernel, words). If it fails, it prints one line, without a traceback."""

    words = (0, 0)  # minimum and maximum number of the command's arguments

    def __init__(self):
        super().__init__(self.name, gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        words = gdb.string_to_argv(argument)
        if not self.words[0] <= len(words) <= self.words[1]:
            raise gdb.GdbError(self.__doc__.partition("\n")[0])
        try:
            for line in self.lines(Kernel(), words):
                gdb.write(line + "\n")
        except Unreadable as error:
            raise gdb.GdbError(f"{self.name}: {error}") from error


class KmemCaches(_Command):
    """kmem-caches
    Arenas and caches, like #mem/kmemstat.
    """

    name = "kmem-caches"

    def lines(self, kernel, _words):
        return files.kmemstat(kernel).splitlines()


class KmemTrace(_Command):
    """kmem-trace NAME
    The text of `cat #mem/kmemtrace/NAME`.
    """

    name, words = "kmem-trace", (1, 1)

    def lines(self, kernel, words):
        return files.dump(kernel, kernel.once(Traces).find(words[0])).splitlines()


class KmemTracedump(_Command):
    """kmem-tracedump FILE
    Writes to FILE what `cat #mem/tracedump` would print, with the records that are in memory.
    scripts/report reads the file.
    """

    name, words = "kmem-tracedump", (1, 1)

    def lines(self, kernel, words):
        data = files.tracedump(kernel)
        try:
            with open(words[0], "wb") as file:
                file.write(data)
        except OSError as error:
            raise Unreadable(f"{words[0]}: {error.strerror}") from error
        sources = TraceDump(data).sources
        yield f"{words[0]}: {len(sources)} traces, {sum(len(source.records) for source in sources)} objects"


class KmemUnreachable(_Command):
    """kmem-unreachable
    Lists live objects that no pointer leads to any more, like `cat #mem/unreachable`.
    """

    name = "kmem-unreachable"

    def lines(self, kernel, _words):
        return unreachable(kernel)


class KmemRefs(_Command):
    """kmem-refs CLASS
    Lists references of a class such as ref.chan that were taken while the class was traced, and have
    not been put: the stack and the process that took each reference, and where the reference is now.
    """

    name, words = "kmem-refs", (1, 1)

    def lines(self, kernel, words):
        return references(kernel, words[0])


class KmemLost(_Command):
    """kmem-lost
    The objects of kmem-unreachable to which no other one points, as JSON for scripts/lost-at.
    """

    name = "kmem-lost"

    def lines(self, kernel, _words):
        yield json.dumps({"lost": lost_objects(kernel)})


class KmemMoment(_Command):
    """kmem-moment ADDRESS ALLOCATION
    Who knows the object at ADDRESS that this ALLOCATION (the `record` in kmem-lost) made, and what
    the CPU is about to do, as JSON for scripts/lost-at.
    """

    name, words = "kmem-moment", (2, 2)

    def lines(self, kernel, words):
        yield json.dumps(moment(kernel, int(words[0], 0), words[1]))


class KmemRefMoment(_Command):
    """kmem-ref-moment CLASS NUMBER
    Where the reference NUMBER (of kmem-lost) is, and what the CPU is about to do, as JSON for
    scripts/lost-at.
    """

    name, words = "kmem-ref-moment", (2, 2)

    def lines(self, kernel, words):
        yield json.dumps(reference_moment(kernel, words[0], int(words[1])))


class KmemKept(_Command):
    """kmem-kept FILE
    What keeps the objects of the stacks that FILE names, as JSON for scripts/leaktest.
    """

    name, words = "kmem-kept", (1, 1)

    def lines(self, kernel, words):
        yield json.dumps({"kept": keepers(kernel, words[0])})


class Tasks(_Command):
    """tasks
    All tasks: number, process, state, CPU, name, address. The number of a thread's task is the thread's id."""

    name = "tasks"

    def lines(self, kernel, _words):
        yield f"{'ID':>5} {'PID':>5} {'STATE':8} {'CPU':>3} {'NAME':31} TASK"
        for task in all_tasks(kernel):
            cpu = task.cpu.id if task.cpu else task.structure.cpu
            yield f"{task.id:5} {task.pid or '-':>5} {task.state:8} {cpu:3} {task.name:31} {task.address:#x}"


class Backtrace(_Command):
    """bt [TASK]
    Shows the stack of a task. TASK is the task's number, name or address, as `tasks` prints them.
    Without TASK, or with options of gdb's command `backtrace`, runs gdb's `backtrace`, which shows the
    stack of the selected CPU.
    """

    name, words = "bt", (0, 16)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) == 1 and not words[0].startswith("-"):
            super().invoke(argument, from_tty)
        else:
            gdb.execute(f"backtrace {argument}")

    def lines(self, kernel, words):
        task = find_task(kernel, words[0])
        yield str(task)
        yield from backtrace_lines(kernel, task.backtrace())


class KmemWhatis(_Command):
    """kmem-whatis ADDRESS…
    Explains what is at an address. For an object: its state, who allocated it if that was traced, the
    pointers to it, and a path to it.
    """

    name, words = "kmem-whatis", (1, 1 << 16)

    def lines(self, kernel, words):
        answers, failed = {}, None
        for word in words:
            try:
                address = _address(word)
                answers[address] = list(whatis(kernel, address))
            except Unreadable as error:  # answer the other addresses; report the first error at the end
                failed = failed or error
        reasons = {}
        try:
            reasons = why_alive(kernel, [address for address in answers if page_of(kernel, address)])
        except Unreadable as error:
            failed = failed or error
        for address, lines in answers.items():
            yield from (*lines, *reasons.get(address, ()))
        if failed:
            raise failed


def _address(word):
    """Returns the value of an expression of gdb. Raises Unreadable."""
    try:
        return int(gdb.parse_and_eval(word).cast(gdb.lookup_type("unsigned long")))
    except gdb.error as error:
        raise Unreadable(str(error)) from error


class Type(gdb.Command):
    """type TEXT
    Types a line at the console of the guest that `make gdb` has booted; the guest reads it when it
    continues.
    """

    def __init__(self):
        super().__init__("type", gdb.COMMAND_RUNNING)

    def invoke(self, argument, _from_tty):
        keys = os.environ.get("STELE_KEYS")
        if not keys:
            raise gdb.GdbError("type: the guest's console is another terminal")
        with open(keys, "w", encoding="utf-8") as file:
            file.write(argument + "\n")


def register():
    for command in _Command.__subclasses__():
        command()
    Type()
