#!/usr/bin/python3
"""make bench-where: shows which functions execute the instructions that traces add to a whole load (loads.py).

    bench/where.py [--load NAME] [--state on|stopped|sampled|depth_64] [--rounds N]

A QEMU plugin (instructions.c) counts how often each kernel instruction is executed. Four guests are compared: with the load and without it,
each traced and untraced. The output has two tables of the instructions that tracing adds to the load, and the counters of
#mem/kmemtrace/ctl. The first table is by source file; an inlined function counts for the file that defines it. The second table is by
function, with the number of calls. The output goes to standard output and to build/bench/where.txt. The image and the plugin must have been
built.
"""
import argparse
import bisect
import collections
import fnmatch
import os
import sys
import tempfile

import counts
import loads

sys.path.insert(0, str(counts.ROOT / "tools"))
from stele import dump, entry, source_lines, tracedump  # noqa: E402  pylint: disable=wrong-import-position

PROGRAMS = 0  # the address under which all programs are counted
# In the table by source file, functions defined in these files count for the file of their caller.
HELPERS = ("kern/lib/*", "kern/include/*", "kern/core/*.h", "kern/arch/x86_64/*.h", "kern/trace/trace.h", "kern/sched/task.h", "kern/sched/timer.h",
           "kern/intern/page_array.h", "kern/intern/page_directory_impl.h", "kern/intern/page_buffer.h", "kern/src/linear_hash.h", "*/c++/*")
LEAST = 0.001  # a row with less than this fraction of the load's instructions is not listed


class Kernel:
    """Finds the functions and source files of addresses in an ELF file."""

    def __init__(self, elf):
        self.elf, self.places = str(elf), {}
        symbols = tracedump.Symbols(elf)
        self.addresses, self.names = symbols.addresses, [name for _, name in symbols.functions]

    def learn(self, addresses):
        """Looks up the source files of `addresses`. source_lines.places expects return addresses
        and subtracts one from each, so one is added here."""
        found = source_lines.places(self.elf, counts.ROOT, [address + 1 for address in addresses])
        self.places = {address - 1: place for address, place in found.items()}

    def function(self, address):
        """Returns (name, whether `address` is the function's first instruction)."""
        place = bisect.bisect_right(self.addresses, address) - 1
        return self.names[place], self.addresses[place] == address

    def file(self, address):
        """Returns the source file for which the code at `address` counts: the file of the function there, which may be inlined. An inlined
        function in a file of HELPERS counts for the file of its caller."""
        files = [place.rpartition(":")[0] for _, place in self.places.get(address, [])]
        return next((file for file in files if not any(fnmatch.fnmatchcase(file, helper) for helper in HELPERS)), files[-1] if files else "?")


def parse(text):
    """Parses the plugin's output to {address: count}."""
    return {int(address, 16): int(number) for address, number in map(str.split, text.splitlines())}


def less(counted, other):
    """Returns the counts minus those of `other`, without zeros."""
    return {key: number for key in counted.keys() | other.keys() if (number := counted.get(key, 0) - other.get(key, 0))}


def profile(plugin, load, state, rounds):
    """Returns {address: number of executions in `rounds` rounds of the load}."""
    def executed(number):
        with tempfile.NamedTemporaryFile("r", prefix="stele-") as file:
            loads.Guest(plugin=f"{plugin},out={file.name}", ports=loads.ports_of(load), build=False).run(loads.script(load, state, number))
            return parse(file.read())
    return less(executed(rounds), executed(0))


def traced(load, state, rounds):
    """Returns what the load adds to the figures of #mem/kmemtrace/ctl, as two dictionaries: {name of a figure: number} and
    {trace: records}. The first dictionary has the figures of trace memory. Its figure `seen` is the number of allocations that the traces
    have seen, summed over all traces."""
    def at_end(number):
        output, _ = loads.Guest(ports=loads.ports_of(load), build=False).run(loads.script(load, state, number) + f"\ncat {loads.CTL}")
        memory, traces = dump.parse_ctl(output)
        memory["seen"] = sum(trace.counters["seen"] for trace in traces)
        return memory, {trace.name: trace.counters["recorded"] for trace in traces}
    (memory, records), (memory_before, records_before) = at_end(rounds), at_end(0)
    return less(memory, memory_before), less(records, records_before)


def table(title, rows, load_total):
    """Returns lines about `rows`, [(name, instructions, calls or None)], largest first. Leaves out rows below LEAST of `load_total`."""
    lines = [f"    {title:44}{'instructions':>13}{'%':>7}" + (f"{'calls':>10}" if any(calls for _, _, calls in rows) else "")]
    for name, number, calls in sorted(rows, key=lambda row: -abs(row[1])):
        if abs(number) >= LEAST * load_total:
            lines.append(f"    {name[:43]:44}{number:>13,}{100 * number / load_total:>7.2f}" + (f"{calls:>10,}" if calls else ""))
    return lines


def by_file(kernel, added):
    sums = collections.Counter()
    for address, number in added.items():
        sums["programs" if address == PROGRAMS else kernel.file(address)] += number
    return [(name, number, None) for name, number in sums.items()]


def by_function(kernel, added):
    sums, calls = collections.Counter(), collections.Counter()
    for address, number in added.items():
        if address != PROGRAMS:
            name, is_first = kernel.function(address)
            sums[name] += number
            calls[name] += number if is_first else 0
    return [(name, number, calls[name]) for name, number in sums.items()]


def report(kernel, load, state, rounds, before, after, memory, records):
    """Returns lines about one load. `before` and `after` are the load's profiles untraced and traced; `memory` and `records` are the results
    of traced()."""
    added = less(after, before)
    kernel.learn([address for address in added if address != PROGRAMS])
    load_total, total, recorded, seen = sum(before.values()), sum(added.values()), sum(records.values()), memory.get("seen", 0)
    others = [f"{name} {number:+,}" for name, number in sorted(memory.items()) if name != "seen"]
    lines = [f"{rounds} × {loads.text_of(load)}; {state}",
             f"    {load_total:,} instructions untraced, {total:,} added: {100 * total / load_total:+.1f} %",
             "    " + ", ".join([f"{seen:,} allocations seen" + (f", {total / seen:,.0f} instructions each" if seen else ""),
                                 f"{recorded:,} records", *others])]
    if records:
        most = sorted(records.items(), key=lambda item: -item[1])[:10]
        lines.append("    of " + ", ".join(f"{name} {number:,}" for name, number in most)
                     + (f", others {recorded - sum(number for _, number in most):,}" if len(records) > len(most) else ""))
    return lines + table("added, by source file", by_file(kernel, added), load_total) + table(
        "added, by function", by_function(kernel, added), load_total)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", choices=[*loads.LOADS, *loads.PROGRAMS], action="append", help="the loads of the shell")
    parser.add_argument("--state", choices=[state for state in loads.STATES if state != "untraced"], default="on")
    parser.add_argument("--rounds", type=int, help="those of `make bench`")
    options = parser.parse_args()
    folder = counts.build_folder() / "bench"
    kernel = Kernel(counts.build_folder() / "stele.elf")
    lines = []
    for load in options.load or loads.LOADS:
        rounds = options.rounds or loads.rounds_of(load)
        before, after = (profile(folder / "instructions.so", load, state, rounds) for state in ("untraced", options.state))
        lines += report(kernel, load, options.state, rounds, before, after, *traced(load, options.state, rounds)) + [""]
    text = "\n".join(lines)
    (folder / "where.txt").write_text(text)
    print(text + f"written: {os.path.relpath(folder)}/where.txt")


if __name__ == "__main__":
    entry.run(main, "where", failed=1)
