"""gdb's commands."""
import gdb

from stele.debugger.kmemstat import kmemstat
from stele.debugger.memory import Kernel, Unreadable


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


def register():
    for command in _Command.__subclasses__():
        command()
