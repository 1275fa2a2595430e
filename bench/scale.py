#!/usr/bin/python3
"""make bench-scale: the cost and memory of tracing with very many objects, contexts, CPUs, processes and records.

    bench/scale.py [--objects N] [--contexts N] [--cpus N] [--processes N] [--records N]

All figures are counted under -icount, so they repeat exactly. A pair is an allocation and the free of that object, traced. N is the value of
the option:

    objects    N objects are live, all allocated by one CPU. Measures a pair, and compares it with a pair in a nearly empty table.
    contexts   N contexts exist, each with its own user stack and object. Measures a pair whose context and stacks must be looked up, and
               a pair whose context is cached.
    cpus       Each of N CPUs has a thousand objects. Measures a pair on the slowest CPU, and counts records in another CPU's shard. Also
               measures the longest time with interrupts off on N CPUs, with few records: in the operations of irq_off.py, except
               those in which every function is probed, and while a CPU frees objects of other CPUs.
    processes  N processes start and end, with all traces on and `limit 4M`. Counts lost records, and compares trace memory at the end with
               trace memory after the first thousand processes.
    records    N records exist. Measures the longest time with interrupts off in all operations of irq_off.py.

The targets are for ten million objects (in a guest with 900 MB), a million contexts, 64 CPUs, a hundred thousand processes and a million
records. Prints a table and writes build/bench/scale.json. The image, the kernel of the variant `irqoff` and the
plugin stretches.so must have been built.
"""
import argparse
import json
import os
import subprocess
import sys

import counts
import irq_off
import loads
import stretches

sys.path.insert(0, str(counts.ROOT / "tools"))
from stele import dump, entry  # noqa: E402  pylint: disable=wrong-import-position

FIRST = 1000  # after this number of processes, trace memory should not grow any more
LIMIT = "4M"
PROCESSES_OF_ROUND = 2  # the processes that one round of loads.LOADS["pipeline"] starts
# Sizes in bytes. OBJECT_BYTES: an object of a benchmark, and the pointer to it. RECORD_BYTES: the
# object's trace record. TRACE_MEMORY: all other memory of the trace. OTHER_MEMORY: all other memory
# of the guest.
OBJECT_BYTES, RECORD_BYTES, TRACE_MEMORY, OTHER_MEMORY = 28, 50, 2 << 20, 128 << 20
CONTEXT_BYTES = 250  # trace memory for an object, if its context and user stack are its own
OBJECTS_OF_CPU = 1000
# For the script of irq_off.py. IRQ_OFF_BYTES: memory in bytes for an object of debug_64 and all its
# records. RANGES: number of memory ranges of a process. LOAD_ROUNDS: how often the pipelines run.
IRQ_OFF_BYTES, RANGES, LOAD_ROUNDS = 1400, 20_000, 300
# The same for the measurement on many CPUs, which is slower.
CPUS_RECORDS, CPUS_RANGES, CPUS_LOAD_ROUNDS = 20_000, 2000, 20
SECONDS = 7200

# Each row: name, description, unit, target (maximum).
ROWS = [
    ("pair_newest", "traced pair beside {objects:,} objects, newest freed", "instructions", None),
    ("pair_oldest", "… oldest freed", "instructions", None),
    ("pair_random", "… random freed", "instructions", None),
    ("pair_more_newest", "… newest: % more than in a nearly empty table", "%", 10),
    ("pair_more_oldest", "… oldest", "%", 10),
    ("pair_more_random", "… random", "%", 10),
    ("bytes_per_object", "memory for each of {objects:,}", "bytes", 45),
    ("contexts_looked_up", "record with look-ups among {contexts:,} contexts, stacks", "instructions", None),
    ("contexts_more_looked_up", "… % more than among 100", "%", None),
    ("contexts_pair", "traced pair beside {contexts:,} contexts, stacks", "instructions", None),
    ("contexts_more_pair", "… % more than beside 100", "%", 10),
    ("bytes_per_context", "memory for each object with context and stack", "bytes", None),
    ("cpus_pair", "traced pair on the slowest of {cpus} CPUs", "instructions", None),
    ("cpus_more", "… % more than in an empty table", "%", 10),
    ("cpus_strays", "records in a shard of another CPU", "records", 0),
    ("cpus_irq_off", "longest with interrupts off, {cpus} CPUs", "instructions", irq_off.LIMIT),
    ("contexts_lost", "contexts lost, {processes:,} processes at limit 4M", "records", 0),
    ("stacks_lost", "stacks lost", "records", 0),
    ("dropped", "records dropped", "records", 0),
    ("memory_growth", "% more trace memory than after 1,000 processes", "%", 10),
    ("irq_off", "longest with interrupts off, {records:,} records", "instructions", irq_off.LIMIT),
    ("irq_off_probed", "… while every function is probed", "instructions", None),
]


def run_bench(file, option, number, traced_bytes):
    """Runs a file of #bench in a guest with memory for `number` objects, each with `traced_bytes`
    of trace memory. Returns {row: value}."""
    memory = number * (OBJECT_BYTES + traced_bytes) + OTHER_MEMORY
    guest = loads.Guest(memory=f"{(memory >> 20) + 1}M", cmdline=f"{option}={number}", build=False)
    output, _ = guest.run(f"echo limit {number * traced_bytes + TRACE_MEMORY} > {loads.CTL}; cat '#bench/{file}'", SECONDS)
    return counts.parse(output)


def of_objects(number):
    """Measures with `number` objects. Returns {row: value}."""
    counted = run_bench("scale", "objects", number, RECORD_BYTES)
    rows = {"bytes_per_object": counted["many_bytes"]}
    for order in ("newest", "oldest", "random"):
        rows[f"pair_{order}"] = counted[f"many_{order}"]
        rows[f"pair_more_{order}"] = loads.per_cent(counted[f"many_{order}"], counted[f"few_{order}"])
    return rows


def of_processes(number):
    """Measures with `number` processes. Returns {row: value}."""
    rounds = [FIRST // PROCESSES_OF_ROUND, max(number - FIRST, 0) // PROCESSES_OF_ROUND]
    parts = [f"i=0; while [ $i -lt {count} ]; do {loads.LOADS['pipeline']}; i=$((i+1)); done; cat {loads.CTL}; echo =" for count in rounds]
    output, _ = loads.Guest(build=False).run("\n".join([f"echo limit {LIMIT} > {loads.CTL}; echo start > {loads.CTL}", *parts]), SECONDS)
    (first, _), (memory, traces) = map(dump.parse_ctl, output.split("=\n")[:2])
    rows = {key: sum(trace.counters[key] for trace in traces) for key in ("contexts_lost", "stacks_lost", "dropped")}
    return rows | {"memory_growth": loads.per_cent(memory["used"], first["used"])}


def of_contexts(number):
    """Measures with `number` contexts. Returns {row: value}."""
    counted = run_bench("contexts", "contexts", number, CONTEXT_BYTES)
    rows = {"bytes_per_context": counted["contexts_many_bytes"]}
    for what in ("looked_up", "pair"):
        few, many = (counted[f"contexts_{size}_{what}"] for size in ("few", "many"))
        rows |= {f"contexts_{what}": many, f"contexts_more_{what}": loads.per_cent(many, few)}
    return rows


def of_cpus(number):
    """Measures with `number` CPUs. Returns {row: value}; the row `cpus_strays` counts records in the shard of another CPU."""
    counted = counts.parse(loads.Guest(cpus=number, build=False).run("cat '#bench/cpus'", SECONDS)[0])
    if (counted["cpus_shards"], counted["cpus_records"]) != (number, number * OBJECTS_OF_CPU):
        raise ValueError(f"{counted['cpus_records']:g} records in {counted['cpus_shards']:g} shards")
    return {"cpus_pair": counted["cpus_dearest"], "cpus_more": loads.per_cent(counted["cpus_dearest"], counted["cpus_empty"]),
            "cpus_strays": counted["cpus_strays"], "cpus_irq_off": irq_off_on(number)[0][0]}


def irq_off_on(cpus):
    """Returns the stretches with interrupts off on `cpus` CPUs, as stretches.measure() does."""
    script = irq_off.silent_script(CPUS_RECORDS, CPUS_RANGES, CPUS_LOAD_ROUNDS)
    if cpus > 1:
        script += f"\n{counts.REMOTE} > /dev/null"
    return stretches.measure(script, SECONDS, cpus=cpus, memory=f"{(CPUS_RECORDS * IRQ_OFF_BYTES + OTHER_MEMORY >> 20) + 257}M", ports=("tests",))


def of_irq_off(records):
    """Measures while there are `records` records. Returns {row: value}."""
    memory = f"{(records * IRQ_OFF_BYTES + OTHER_MEMORY >> 20) + 1}M"
    output, _ = loads.Guest("irqoff", memory=memory, ports=("tests",), build=False).run(irq_off.script(records, RANGES, LOAD_ROUNDS), SECONDS)
    steps = irq_off.steps_in(output)
    if "end" not in steps:
        raise ValueError("the guest did not come to the end")
    longest = {"irq_off": 0, "irq_off_probed": 0}
    for step, text in steps.items():
        row = "irq_off_probed" if step.startswith("all probed") else "irq_off"
        ticks = [ticks for ticks, off, _, _ in irq_off.stretches_in(text) if not irq_off.stops_the_world(step, off)]
        longest[row] = max(longest[row], *ticks, 0)
    return longest


MEASURES = {"objects": of_objects, "contexts": of_contexts, "cpus": of_cpus, "processes": of_processes, "records": of_irq_off}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=10_000_000)
    parser.add_argument("--contexts", type=int, default=1_000_000)
    parser.add_argument("--cpus", type=int, default=64)
    parser.add_argument("--processes", type=int, default=5_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.processes < FIRST:
        parser.error(f"--processes: at least {FIRST}")
    figures, failed = [], False
    print(f"{'':60}{'Stele':>14}  {'target':>8}")
    sizes = vars(options)
    for size, number in sizes.items():
        measure = MEASURES[size]
        try:
            values = measure(number)
        except (RuntimeError, ValueError, KeyError, OSError, subprocess.SubprocessError) as error:
            print(f"scale: {error}", file=sys.stderr)
            failed = True
            continue
        for name, what, unit, target in ROWS:
            if name in values:
                value, ok = round(values[name], 2), target is None or values[name] <= target
                figures.append({"name": name, "value": value, "unit": unit, "target": target, "ok": ok})
                wanted = "" if target is None else f"≤ {target}"
                verdict = "" if target is None else "met" if ok else "MISSED"
                print(f"{what.format(**sizes):60}{value:>14,.2f}  {wanted:>8}  {verdict}".rstrip(), flush=True)
    path = counts.build_folder() / "bench/scale.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sizes | {"rows": figures}, indent=1) + "\n")
    print(f"written: {os.path.relpath(path)}")
    if failed:
        sys.exit("scale: some could not be measured")


if __name__ == "__main__":
    entry.run(main, "scale", failed=1)
