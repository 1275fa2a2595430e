"""Measures how long interrupts are off in a guest with any number of CPUs, with a plugin of QEMU's (stretches.c).

#mem/irqoff (irq_off.py) measures with the time stamp counter. Under -icount all CPUs share it, so #mem/irqoff is exact with one CPU only.
"""
import bisect
import pathlib
import re
import subprocess
import sys
import tempfile

import counts
import loads

sys.path.insert(0, str(counts.ROOT / "tools"))
from stele import tracedump  # noqa: E402  pylint: disable=wrong-import-position

# The kinds of places (stretches.c), by instruction, and by the name of the function that begins there.
INSTRUCTIONS = {"cli": "o", "sti": "i", "iretq": "r", "popf": "f"}
FUNCTIONS = {"system_call_entry": "c", "slab_trace_alloc": "b", "reach::world_stopped": "s"}
TRAPS, TRAP_BYTES = 256, 16  # the stubs at trap_entries_start (entry.S)
INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\s+(" + "|".join(INSTRUCTIONS) + r")\b")


class Kernel:
    """The functions of a kernel: [(address, name)], in ascending order."""

    def __init__(self, functions):
        self.functions, self.addresses = functions, [address for address, _ in functions]

    def at(self, address):
        """Returns (address, name) of the function at `address`."""
        return self.functions[bisect.bisect_right(self.addresses, address) - 1]

    def places(self, listing):
        """Returns the text for the plugin's argument `places`. `listing` is the kernel's code, as objdump prints it."""
        found = {}
        for match in filter(None, map(INSTRUCTION.match, listing.splitlines())):
            function, name = self.at(int(match[1], 16))
            # The entry of a trap restores the flags that the CPU has saved.
            kind = "r" if name.startswith("trap_entry") else INSTRUCTIONS[match[2]]
            found[int(match[1], 16)] = (kind, function)
        begins = {name: address for address, name in self.functions}
        found |= {begins["trap_entries_start"] + TRAP_BYTES * vector: ("t", 0) for vector in range(TRAPS)}
        found |= {begins[name]: (kind, 0) for name, kind in FUNCTIONS.items()}
        return "".join(f"{address:x} {kind} {function:x}\n" for address, (kind, function) in sorted(found.items()))


def measure(script, timeout, **guest):
    """Runs the script in a loads.Guest with the arguments `guest`. Returns [(instructions, function that turned interrupts off, function that turned
    them on)], the longest stretch first. A stretch in which the kernel stops all CPUs does not count."""
    elf = counts.build_folder() / "stele.elf"
    kernel = Kernel(tracedump.Symbols(elf).functions)
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(elf)], stdout=subprocess.PIPE, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="stele-") as folder:
        places, out = pathlib.Path(folder, "places"), pathlib.Path(folder, "out")
        places.write_text(kernel.places(listing))
        loads.Guest(plugin=f"{counts.build_folder() / 'bench/stretches.so'},places={places},out={out}", build=False, **guest).run(script, timeout)
        lines = [line.split() for line in out.read_text().splitlines()]
    return sorted(((int(number), kernel.at(int(off, 16))[1], kernel.at(int(on, 16))[1]) for number, off, on in lines), reverse=True)
