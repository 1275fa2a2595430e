"""Traceable classes of references: kern/core/ref.h."""
from stele.debugger.tasks import cpus


class RefClass:
    """A class of references: an element of the kernel's array `ref_classes`. `taken` and `put` are the numbers of references that all CPUs together
    have taken and put."""

    def __init__(self, kernel, number, structure):
        self.structure, self.address = structure, structure.address
        self.name = kernel.read(structure.name, 64).partition(b"\0")[0].decode("ascii", "replace")
        traced = kernel.constant("ref_traced")
        counts = [cpu.tables.cpu.refs[number] for cpu in kernel.once(cpus)]
        self.taken, self.put = (sum(getattr(each, field) & ~traced for each in counts) for field in ("taken", "put"))

    def live(self):
        return self.taken - self.put


def ref_classes(kernel):
    return [RefClass(kernel, number, structure) for number, structure in enumerate(kernel.variable("ref_classes"))]
