"""gdb's commands."""
import gdb

from stele.debugger.dump_text import dump_text
from stele.debugger.kmemstat import kmemstat
from stele.debugger.memory import Kernel, Unreadable, constant
from stele.debugger.symbols import Symbols
from stele.debugger.traces import Traces


class _Command(gdb.Command):
    """A command whose work is lines(kernel, words); what is not as it should be is one line, no traceback."""

    words = (0, 0)  # how many there are at least and at most

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
    Arenas and caches, as #mem/kmemstat has them."""

    name = "kmem-caches"

    def lines(self, kernel, _words):
        return kmemstat(kernel)


class KmemTrace(_Command):
    """kmem-trace NAME
    What `cat #mem/kmemtrace/NAME` would print."""

    name, words = "kmem-trace", (1, 1)

    def lines(self, kernel, words):
        traces = Traces(kernel)
        owner = traces.find(words[0])
        source = traces.source_of(owner)
        if source:
            yield from dump_text(traces, source, Symbols(kernel))
            return
        structure = owner.structure
        yield f"kmemtrace {owner.name} state off objsize {structure.object_size if structure.has('object_size') else structure.quantum}"
        if structure.flags & constant("KMC_NOTRACE"):
            yield "it cannot be traced: the allocator or the tracer lives on it"
        else:
            yield f"to trace it: echo start > #mem/kmemtrace/{owner.name}"


def register():
    for command in _Command.__subclasses__():
        command()
