#!/usr/bin/python3
"""make bench-scale: whether tracing costs the same, and keeps to its memory, when there is very much of everything.

    bench/scale.py [--objects N] [--processes N]

All is counted under -icount on one CPU, so it repeats exactly. Objects: N of one CPU live at once, and a pair beside them against a pair
in a nearly empty table. Processes: N come and go with all traces on and `limit 4M`; what was lost of them, and trace memory at the end
against that after the first thousand. The targets speak of ten million objects, whose guest has 900 MB, and of a hundred thousand
processes. Prints a table and writes build/bench/scale.json. The image must have been built.
"""
import argparse
import json
import os
import subprocess
import sys

import counts
import loads

sys.path.insert(0, str(counts.ROOT / "tools"))
from stele import dump  # noqa: E402  pylint: disable=wrong-import-position

FIRST = 1000  # processes, after which trace memory is what it shall stay
LIMIT = "4M"
PROCESSES_OF_ROUND = 2  # of loads.LOADS["pipeline"]
# A tiny object and the bench's pointer to it; its share of the trace; what the trace and the guest have besides.
OBJECT_BYTES, RECORD_BYTES, TRACE_MEMORY, OTHER_MEMORY = 28, 50, 2 << 20, 128 << 20
SECONDS = 7200

# Name, what it is, unit, target (at most).
ROWS = [
    ("pair_newest", "traced pair beside {objects:,} objects, newest freed", "instructions", None),
    ("pair_oldest", "… oldest freed", "instructions", None),
    ("pair_random", "… random freed", "instructions", None),
    ("pair_more_newest", "… newest: % more than in a nearly empty table", "%", 10),
    ("pair_more_oldest", "… oldest", "%", 10),
    ("pair_more_random", "… random", "%", 10),
    ("bytes_per_object", "memory for each of {objects:,}", "bytes", 45),
    ("contexts_lost", "contexts lost, {processes:,} processes at limit 4M", "records", 0),
    ("stacks_lost", "stacks lost", "records", 0),
    ("dropped", "records dropped", "records", 0),
    ("memory_growth", "% more trace memory than after 1,000 processes", "%", 10),
]


def of_objects(number):
    """{row: value}."""
    memory = number * (OBJECT_BYTES + RECORD_BYTES) + OTHER_MEMORY
    guest = loads.Guest(memory=f"{(memory >> 20) + 1}M", cmdline=f"objects={number}", build=False)
    limit = number * RECORD_BYTES + TRACE_MEMORY
    output, _ = guest.run(f"echo limit {limit} > {loads.CTL}; cat '#bench/scale'", SECONDS)
    counted = counts.parse(output)
    rows = {"bytes_per_object": counted["many_bytes"]}
    for order in ("newest", "oldest", "random"):
        rows[f"pair_{order}"] = counted[f"many_{order}"]
        rows[f"pair_more_{order}"] = loads.per_cent(counted[f"many_{order}"], counted[f"few_{order}"])
    return rows


def of_processes(number):
    """{row: value}."""
    rounds = [FIRST // PROCESSES_OF_ROUND, max(number - FIRST, 0) // PROCESSES_OF_ROUND]
    parts = [f"i=0; while [ $i -lt {count} ]; do {loads.LOADS['pipeline']}; i=$((i+1)); done; cat {loads.CTL}; echo =" for count in rounds]
    output, _ = loads.Guest(build=False).run("\n".join([f"echo limit {LIMIT} > {loads.CTL}; echo start > {loads.CTL}", *parts]), SECONDS)
    (first, _), (memory, traces) = map(dump.parse_ctl, output.split("=\n")[:2])
    rows = {key: sum(trace.counters[key] for trace in traces) for key in ("contexts_lost", "stacks_lost", "dropped")}
    return rows | {"memory_growth": loads.per_cent(memory["used"], first["used"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, default=5_000)
    options = parser.parse_args()
    if options.processes < FIRST:
        parser.error(f"--processes: at least {FIRST}")
    figures, failed = [], False
    print(f"{'':60}{'Stele':>14}  {'target':>8}")
    for measure, number in ((of_objects, options.objects), (of_processes, options.processes)):
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
                print(f"{what.format(**vars(options)):60}{value:>14,.2f}  {wanted:>8}  {verdict}".rstrip(), flush=True)
    path = counts.build_folder() / "bench/scale.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"objects": options.objects, "processes": options.processes, "rows": figures}, indent=1) + "\n")
    print(f"written: {os.path.relpath(path)}")
    if failed:
        sys.exit("scale: some could not be measured")


if __name__ == "__main__":
    main()
