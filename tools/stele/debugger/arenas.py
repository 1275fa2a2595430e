"""Arenas: kern/src/arena.cc."""


class Arena:
    def __init__(self, kernel, structure):
        self.kernel, self.structure = kernel, structure
        self.address, self.name = structure.address, structure.name.decode("ascii", "replace")


def all_arenas(kernel):
    """Returns all arenas in order of creation, except arenas that are still being created."""
    first = kernel.variable("first_arena")
    return [Arena(kernel, structure) for structure in kernel.list_from("struct arena", first, "next_arena") if structure.announced]
