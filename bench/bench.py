#!/usr/bin/python3
"""make bench: every figure, beside its target and those of the peers.

    bench/bench.py [--counts-only] [--write-baseline]

Prints the table and writes into build/bench: figures.json, a list of objects with name, value, unit, target (null: none) and ok;
cost-outstanding.svg and cost-depth.svg; untraced.txt, the instructions of an untraced pair. --counts-only leaves the host's
processors out; --write-baseline makes the counts those that the test compares with.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import counts

# Name, what it is, unit, target (a number: at most; negative: at least its absolute value), Akaros, Linux 6.1 at its best.
# The peers' figures were measured on the same work.
ROWS = [
    ("untraced", "alloc+free, 64-byte cache, never traced", "instructions", 64, "110", "158"),
    ("untraced_flag_tests", "… of which the flag tests", "instructions", 4, "6", "0"),
    ("untraced_bufctl", "… from a cache with bufctls", "instructions", None, "144", ""),
    ("untraced_kmalloc", "… by kmalloc and kfree", "instructions", None, "", ""),
    ("traced", "… traced, 10 frames, nothing else outstanding", "instructions", 300, "1,073", "4,688 kmemleak"),
    ("traced_bufctl", "… from a cache with bufctls", "instructions", None, "", ""),
    ("traced_kmalloc", "… by kmalloc and kfree", "instructions", None, "", ""),
    ("traced_process", "… in process context", "instructions", 320, "~2,000", ""),
    ("traced_process_first_of_call", "… and the first of a system call: the user stack", "instructions", None, "", ""),
    ("traced_process_no_user_stack", "… and no user stack", "instructions", None, "", ""),
    *((f"traced_{order}_of_{number}", f"… traced, {number:,} outstanding, {order} freed", "instructions",
       320 if number == 100000 and order != "newest" else None, akaros.get(number, ""), "~4,800" if number == 100000 else "")
      for order, akaros in (("newest", {}), ("oldest", {1000: "3,032", 10000: "21,032", 100000: "201,032"}),
                            ("random", {1000: "2,077", 10000: "10,906", 100000: "99,868"}))
      for number in (1000, 10000, 100000)),
    *((f"traced_depth_{depth}", f"… traced, {depth} frames", "instructions", None,
       {8: "1,031", 10: "1,073", 20: "1,265"}.get(depth, ""), "") for depth in range(2, 31, 2)),
    ("added_1000_stacks", "added by tracing, 1,000 stacks in rotation", "instructions", 450, "~970", ""),
    ("longest_hook", "longest addition by one hook, growing to 100,000", "instructions", 2000, "", ""),
    ("added_growing", "added to an alloc, growing to 100,000", "instructions", None, "", ""),
    ("free_after_stop", "free after stop, no record, 100,000 records left", "instructions", 90, "200,049", ""),
    ("bytes_per_object", "memory for each traced object, the worst", "bytes", 48, "273", "64 U, 97 memleak"),
    ("cache_bytes", "memory added to each kmem_cache", "bytes", 16, "552", ""),
    ("cache_cpu_bytes", "… and to its part for each CPU", "bytes", 1, "0", ""),
    ("dump", "dump as text, for each object", "instructions", 1500, "72,607", ""),
    ("dump_binary", "… in binary", "instructions", None, "", ""),
    ("call", "a call of a kernel function, 11 frames", "instructions", None, "", "8"),
    ("call_probed", "… probed, by a consumer that does nothing", "instructions", 90, "", ""),
    ("call_probed_return", "… and its return", "instructions", None, "", ""),
    ("call_counted", "… under stackcount", "instructions", 350, "", "7,519 bcc"),
    ("user_pair", "malloc+free of a process, 64 bytes", "instructions", None, "", ""),
    ("user_pair_added", "… added by memleak -p", "instructions", None, "", "12,817 kernel's, bcc"),
    ("host_untraced", "real processor: an untraced pair", "ns", None, "", ""),
    ("host_traced_ratio", "… a traced pair, in untraced ones", "ratio", None, "", ""),
    ("host_traced_ratio_2", "… two threads, one cache", "ratio", None, "", ""),
    ("host_control_ratio_2", "… two processes, nothing shared", "ratio", None, "", ""),
    ("host_share_of_control", "… share of what sharing nothing gains", "ratio", -0.9, "", ""),
]


# A machine that has other things to do is asked again, so often. A round counts if each worker had so much of its processor.
HOST_TRIES, HOST_RUNS, HOST_ROUNDS, HAD_CPU = 20, 5, 5, 0.97


def host_run(program):
    """{benchmark: nanoseconds for a pair}, each the median of the rounds that count; None if too few do."""
    run = subprocess.run([str(program), "--benchmark_format=json", "--benchmark_enable_random_interleaving=true"], check=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rounds = {}
    for round_ in json.loads(run.stdout)["benchmarks"]:
        if round_["run_type"] == "iteration":
            times = rounds.setdefault(round_["name"].split("/")[0], [])
            if round_["had_cpu"] >= HAD_CPU:
                times.append(round_["real_time"])
    if min(map(len, rounds.values())) < HOST_ROUNDS:
        return None
    return {name: statistics.median(times) for name, times in rounds.items()}


def host_figures(program):
    """Medians of several runs: where memory lies makes a difference, and that is another in each."""
    runs = []
    for _ in range(HOST_TRIES):
        run = host_run(program)
        runs += [run] if run else []
        if len(runs) == HOST_RUNS:
            break
    if not runs:
        raise RuntimeError("the machine has other things to do: no worker of the host's benchmark had its processor long enough")
    nanoseconds = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    untraced = nanoseconds["untraced"]
    return {"host_untraced": untraced,
            "host_traced_ratio": nanoseconds["traced"] / untraced,
            "host_traced_ratio_2": nanoseconds["threads"] / untraced,
            "host_control_ratio_2": nanoseconds["processes"] / untraced,
            "host_share_of_control": statistics.median(run["processes"] / run["threads"] for run in runs)}


def unmeasured(values, counts_only):
    return [row[0] for row in ROWS if row[0] not in values and not (counts_only and row[0].startswith("host_"))]


def meets(value, target):
    if target is None:
        return True
    return value <= target if target >= 0 else value >= -target


def figures(values):
    """The list that figures.json is."""
    return [{"name": name, "value": round(values[name], 3), "unit": unit, "target": None if target is None else abs(target),
             "ok": meets(values[name], target)}
            for name, _, unit, target, _, _ in ROWS if name in values]


def table(values):
    lines = [f"{'':52}{'Stele':>10}  {'target':>8}  {'':6}  {'Akaros':>8}  Linux 6.1"]
    for name, what, unit, target, akaros, linux in ROWS:
        if name not in values:
            continue
        wanted = "" if target is None else f"{'≤' if target >= 0 else '≥'} {abs(target):g}"
        verdict = "" if target is None else "met" if meets(values[name], target) else "MISSED"
        lines.append(f"{what:52}{values[name]:>10,.2f}  {wanted:>8}  {verdict:6}  {akaros:>8}  {linux}".rstrip())
    return "\n".join(lines)


def draw(values, folder):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stele"
    from matplotlib import pyplot

    # The legend stands below the axes, where no line runs.
    def finish(axes, what, name):
        axes.set_xlabel(what)
        axes.set_ylabel("instructions for a pair")
        axes.set_ylim(bottom=0 if axes.get_yscale() == "linear" else 50)
        axes.grid(True, alpha=0.3)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=3, frameon=False)
        axes.figure.savefig(folder / name, bbox_inches="tight", metadata={"Date": None})
        pyplot.close(axes.figure)

    numbers = [1000, 10000, 100000]
    axes = pyplot.figure(figsize=(8, 5)).subplots()
    for order in ("newest", "oldest", "random"):
        axes.plot(numbers, [values[f"traced_{order}_of_{n}"] for n in numbers], "o-", label=f"Stele, {order} freed")
    axes.plot(numbers, [3032, 21032, 201032], "x--", color="gray", label="Akaros, oldest freed")
    axes.plot(numbers, [2077, 10906, 99868], "x:", color="gray", label="Akaros, random freed")
    axes.axhline(4800, color="brown", linestyle=":", label="Linux, kmemleak")
    axes.axhline(values["untraced"], color="green", linestyle=":", label="Stele, untraced")
    axes.set_xscale("log")
    axes.set_yscale("log")
    finish(axes, "outstanding objects", "cost-outstanding.svg")

    depths = range(2, 31, 2)
    axes = pyplot.figure(figsize=(8, 5)).subplots()
    axes.plot(depths, [values[f"traced_depth_{d}"] for d in depths], "o-", label="Stele")
    axes.plot([8, 10, 20], [1031, 1073, 1265], "x--", color="gray", label="Akaros")
    axes.axhline(values["untraced"], color="green", linestyle=":", label="Stele, untraced")
    finish(axes, "frames", "cost-depth.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts-only", action="store_true")
    parser.add_argument("--write-baseline", action="store_true")
    options = parser.parse_args()
    folder = counts.build_folder() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    values = counts.measure()
    unknown = values.keys() - {row[0] for row in ROWS}
    if unknown:
        sys.exit(f"bench: rows that nobody explains: {', '.join(sorted(unknown))}")
    if options.write_baseline:
        counts.write_baseline(values)
    if not options.counts_only:
        values |= host_figures(folder / "pairs_bench")
    if missing := unmeasured(values, options.counts_only):
        sys.exit(f"bench: rows that nobody measured: {', '.join(missing)}")
    paths = counts.hot_path(counts.build_folder() / "stele.elf")
    (folder / "untraced.txt").write_text("".join(
        f"{name}: {len(path)} instructions\n" + "".join(f"    {line}\n" for line in path) for name, path in paths.items()))
    (folder / "figures.json").write_text(json.dumps(figures(values), indent=1) + "\n")
    draw(values, folder)
    print(table(values))
    print(f"untraced, but for the loop: {' + '.join(str(len(path)) for path in paths.values())} instructions, listed in untraced.txt")
    if not options.counts_only:
        print(f"load of the host meanwhile: {os.getloadavg()[0]:.1f}, with {os.cpu_count()} processors")
    print(f"written: {os.path.relpath(folder)}/figures.json, cost-outstanding.svg, cost-depth.svg, untraced.txt")


if __name__ == "__main__":
    main()
