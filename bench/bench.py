#!/usr/bin/python3
"""make bench: shows what the allocator and the tracer cost, beside targets and the figures of other kernels.

    bench/bench.py [--counts-only] [--write-baseline]

Prints a table, and writes these files into build/bench:

    figures.json          a list of objects with name, value (null: not measured), unit, target (null: none) and ok; without a value also `why`
    cost-outstanding.svg  instructions of a traced pair (an allocation and the free of the object), by the number of outstanding objects
    cost-depth.svg        instructions of a traced pair, by the number of recorded frames
    untraced.txt          the instructions of an untraced pair, listed

--counts-only leaves out the charts and four kinds of measurements: those on the host's processors, those of whole loads, those of sqlite3, and
those with 64 CPUs.
--write-baseline replaces the baseline of this machine's compiler in bench/baseline/, with which tests/guest/counts_test.py compares. The new
baseline contains the counts that --counts-only measures, and the counts of the short loads (loads.py). Everything that runs must have been built; `make bench` builds it.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import counts
import inserts
import loads

sys.path.insert(0, str(counts.ROOT / "tools"))
from stele import entry, progress  # noqa: E402  pylint: disable=wrong-import-position

# The descriptions of the rows of whole loads, for each state of the traces that loads.PROGRAMS has.
TRACES = {"on": "… % more with all traces on", "depth_64": "… % more with all traces on, depth=64"}
# The most that tracing may add to a pair whose stack no hint names: such a pair may take 500
# instructions, and takes 60 without the trace.
ADDED = 440
# Each row: name, description, unit, target (positive: maximum; negative: its absolute value is the
# minimum), figure of Akaros, figures of Linux 6.1 (several if several tools of Linux were measured).
# Akaros and Linux did the same work as Stele when they were measured.
ROWS = [
    ("untraced", "alloc+free, 64-byte cache, never traced", "instructions", 62, "110", "158"),
    ("untraced_flag_tests", "… of which the flag tests", "instructions", 4, "6", "0"),
    ("untraced_bufctl", "… from a cache with bufctls", "instructions", None, "144", ""),
    ("untraced_freed_by_another", "… freed by another CPU", "instructions", None, "", ""),
    ("untraced_kmalloc", "… by kmalloc and kfree", "instructions", None, "", ""),
    ("traced", "… traced, 10 frames, nothing else outstanding", "instructions", 330, "1,073", "4,688 kmemleak"),
    ("traced_bufctl", "… from a cache with bufctls", "instructions", None, "", ""),
    ("traced_kmalloc", "… by kmalloc and kfree", "instructions", None, "", ""),
    ("traced_counting_frees", "… counting who frees", "instructions", 1200, "", ""),
    ("traced_freed_by_another", "… freed by another CPU", "instructions", 400, "", ""),
    ("traced_process", "… in process context", "instructions", 320, "~2,000", ""),
    ("traced_process_first_of_call", "… the first in a system call, 6 known user frames", "instructions", 450, "", ""),
    ("traced_process_first_new", "… the same, 6 unknown user frames", "instructions", 1000, "", ""),
    ("traced_process_no_user_stack", "… and no user stack", "instructions", None, "", ""),
    *((f"traced_{order}_of_{number}", f"… traced, {number:,} outstanding, {order} freed", "instructions",
       345 if number == 100000 and order != "newest" else None, akaros.get(number, ""), "~4,800" if number == 100000 else "")
      for order, akaros in (("newest", {}), ("oldest", {1000: "3,032", 10000: "21,032", 100000: "201,032"}),
                            ("random", {1000: "2,077", 10000: "10,906", 100000: "99,868"}))
      for number in (1000, 10000, 100000)),
    *((f"traced_depth_{depth}", f"… traced, {depth} frames", "instructions", None,
       {8: "1,031", 10: "1,073", 20: "1,265"}.get(depth, ""), "") for depth in range(2, 31, 2)),
    *((f"{state}_free_of_{cpus}_cpus", what.format(cpus), "instructions", target, "", "")
      for cpus, most in ((2, 130), (8, 160), (64, 250))
      for state, what, target in (("untraced", "free of an object of one of {} CPUs, at random", None), ("traced", "… traced", most))),
    ("added_reference", "added to copy and drop of a reference, never traced", "instructions", 6, "", ""),
    ("traced_reference", "… copy and drop, traced, 10 frames", "instructions", 320, "", ""),
    ("added_1000_stacks", "added by tracing, 1,000 stacks in rotation", "instructions", 450, "~970", ""),
    ("added_10000_stacks", "… 10,000 stacks", "instructions", ADDED, "", ""),
    ("added_two_paths", "… two stacks that differ at the outer end, in turn", "instructions", ADDED, "", ""),
    ("added_16_frame_sizes", "… one stack, 16 sizes of its frames in turn", "instructions", ADDED, "", ""),
    ("added_two_depths", "… two caches, one traced with depth=9, in turn", "instructions", ADDED, "", ""),
    ("added_each_of_60_frames", "added by tracing with depth=64, each of 60 frames", "instructions", 16, "", ""),
    ("added_each_of_60_frames_two_paths", "… two stacks that differ at the outer end, in turn", "instructions", 16, "", ""),
    ("unrecorded", "alloc without a record, trace memory used up", "instructions", 400, "", ""),
    ("unrecorded_new_stack", "… each from a stack that was never seen", "instructions", 400, "", ""),
    ("longest_hook", "longest addition by one hook, growing to 100,000", "instructions", 2000, "", ""),
    ("added_growing", "added to an alloc, growing to 100,000", "instructions", None, "", ""),
    ("free_after_stop", "free after stop, no record, 100,000 records left", "instructions", 90, "200,049", ""),
    ("bytes_per_object", "memory for each traced object, the worst", "bytes", 45, "273", "64 U, 97 memleak"),
    ("bytes_per_object_of_10000", "… of 10,000 objects, 1,000 stacks", "bytes", 50, "", ""),
    ("bytes_per_object_of_1000", "… of 1,000 objects, 1,000 stacks", "bytes", 80, "", ""),
    ("cache_bytes", "memory added to each kmem_cache", "bytes", 16, "552", ""),
    ("cache_cpu_bytes", "… and to its part for each CPU", "bytes", 1, "0", ""),
    ("dump", "dump as text, for each object", "instructions", 1400, "72,607", ""),
    ("dump_binary", "… in binary", "instructions", None, "", ""),
    ("unreachable_object", "#mem/unreachable: a 64-byte object with one pointer, of 100,000", "instructions", 100, "", ""),
    ("call", "a call of a kernel function, 11 frames", "instructions", None, "", "8"),
    ("call_probed", "… probed, by a consumer that does nothing", "instructions", 90, "", ""),
    ("call_probed_return", "… and its return", "instructions", None, "", ""),
    ("call_counted", "… under stackcount", "instructions", 350, "", "7,519 bcc"),
    ("user_pair", "malloc+free of a process, 64 bytes", "instructions", None, "", ""),
    ("user_pair_added", "… added by memleak -p", "instructions", None, "", "12,817 kernel's, bcc"),
    *((f"load_{load}{state}", what, unit, target, "", linux)
      for load, called, untraced, on in (
          ("pipeline", "ls / | cat > /dev/null", "567.6", "70.9 kmemleak, 40.0 page_owner, 142.7 U"),
          ("file", "write and read a file of #tmp", "13.5", "40.5 kmemleak, 21.0 page_owner, 90.3 U"))
      for state, what, unit, target, linux in (
          ("", f"{loads.ROUNDS} × {called}, millions", "million instructions", None, untraced),
          ("_on", TRACES["on"], "%", 8, on),
          ("_stopped", "… % more with all stopped, records kept", "%", 0.7, ""),
          ("_sampled", "… % more with all sampled, by 512K", "%", 1.1, ""),
          ("_flag_tests", "… % more, never traced, than without flag tests", "%", 0.5, ""))),
    *((f"load_{load}{state}", what, unit, target, "", "")
      for load, program in loads.PROGRAMS.items()
      for state, what, unit, target in (
          ("", f"{program.rounds:,} × {program.what}, millions", "million instructions", None),
          *((f"_{state}", TRACES[state], "%", target) for state, target in program.targets.items()))),
    ("load_sweeps", f"{loads.SWEEP_ROUNDS} × ls /, memory for traces short: {loads.SWEEP_RECORDS:,} records / 0", "ratio", 1.1, "", ""),
    ("inserts", f"an insert of sqlite3, autocommitted in #tmp ({inserts.INSERTS:,} of them)", "thousand instructions", None, "", ""),
    ("inserts_on", "… % more with all traces on", "%", None, "", ""),
    ("inserts_sampled", "… % more with all sampled, by 512K", "%", None, "", ""),
    ("host_untraced", "real processor: an untraced pair", "ns", None, "", ""),
    ("host_traced_ratio", "… traced pair / untraced pair", "ratio", 7, "", ""),
    ("host_traced_ratio_2", "… two threads, one cache", "ratio", None, "", ""),
    ("host_control_ratio_2", "… two processes, nothing shared", "ratio", None, "", ""),
    ("host_share_of_control", "… pair of the processes / pair of the threads", "ratio", -0.9, "", ""),
]


# Limits for host_figures(), which runs pairs_bench until each benchmark has HOST_RUNS valid runs,
# but at most HOST_TRIES times. A run is valid for a benchmark if at least HOST_ROUNDS of the
# benchmark's rounds are valid. A round is valid if each worker had its processor for at least the
# fraction HAD_CPU of the elapsed time. A run may take HOST_SECONDS seconds.
HOST_TRIES, HOST_RUNS, HOST_ROUNDS, HAD_CPU, HOST_SECONDS = 20, 5, 5, 0.97, 120
# For each row that is measured on the host: the benchmarks of pairs_bench from which it is
# computed.
HOST_NEEDS = {"host_untraced": ("untraced",), "host_traced_ratio": ("untraced", "traced"),
              "host_traced_ratio_2": ("untraced", "threads"), "host_control_ratio_2": ("untraced", "processes"),
              "host_share_of_control": ("threads", "processes")}
# Rows that bench/baseline/ does not contain. The rows of the host's processors change with the
# host. The rows of whole loads and of sqlite3 change with each image. The guest of the rows of 64
# CPUs takes too long for `make test`.
NOT_IN_BASELINE = HOST_NEEDS.keys() | set(loads.rows()) | set(inserts.rows()) | counts.MANY_CPUS_ROWS


class Failed(Exception):
    """A measurement failed; the message gives the reason."""


def host_run(program):
    """Runs `program` once. Returns {benchmark: [(had_cpu, nanoseconds for a pair), one tuple for each round]}. had_cpu is the fraction of the elapsed
    time for which the worker had its processor; with two workers, the smaller fraction."""
    try:
        run = subprocess.run([str(program), "--benchmark_format=json", "--benchmark_enable_random_interleaving=true"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=HOST_SECONDS)
        if run.returncode != 0:
            last = run.stderr.strip().splitlines()[-1:]
            raise Failed(f"{program.name} ended with {run.returncode}" + "".join(f": {line}" for line in last))
        rounds = {}
        for round_ in json.loads(run.stdout)["benchmarks"]:
            if round_["run_type"] == "iteration":
                rounds.setdefault(round_["name"].split("/")[0], []).append((round_["had_cpu"], round_["real_time"]))
        return rounds
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        raise Failed(f"{program.name}: {error}") from error


def host_figures(program):
    """Returns ({row: value}, {row: reason why it was not measured}).

    The values are medians of several runs, because the memory layout varies from run to run and changes the time.
    """
    runs, shares, failed = [], {}, None
    needed = {name for names in HOST_NEEDS.values() for name in names}
    try:
        for _ in range(HOST_TRIES):
            run = {}
            for name, rounds in host_run(program).items():
                shares.setdefault(name, []).extend(share for share, _ in rounds)
                times = [time for share, time in rounds if share >= HAD_CPU]
                if len(times) >= HOST_ROUNDS:
                    run[name] = statistics.median(times)
            runs.append(run)
            if all(sum(name in run for run in runs) >= HOST_RUNS for name in needed):
                break
    except Failed as error:
        failed = str(error)
    nanoseconds = {name: statistics.median(times) for name in needed if (times := [run[name] for run in runs if name in run])}
    # In each run, compares two threads that share a cache with two processes that share nothing.
    both = [run["processes"] / run["threads"] for run in runs if {"processes", "threads"} <= run.keys()]
    values = {}
    if "untraced" in nanoseconds:
        untraced = values["host_untraced"] = nanoseconds["untraced"]
        values |= {row: nanoseconds[name] / untraced for row, name in (
            ("host_traced_ratio", "traced"), ("host_traced_ratio_2", "threads"), ("host_control_ratio_2", "processes"))
            if name in nanoseconds}
    if both:
        values["host_share_of_control"] = statistics.median(both)

    def why(row):
        if failed:
            return failed
        missing = [name for name in HOST_NEEDS[row] if name not in nanoseconds]
        if not missing:
            return f"no run has both of {' and '.join(HOST_NEEDS[row])}"
        return "; ".join(f"too few rounds of '{name}' had {HAD_CPU} of their processor"
                         + (f", the best {max(shares[name]):.2f}" if name in shares else "") for name in missing)

    return values, {row: why(row) for row in HOST_NEEDS if row not in values}


def counted(counts_only):
    """Counts instructions in guests. Returns ({row: value}, {row: reason why it was not measured})."""
    values, reasons = {}, {}
    for measure, rows in ((counts.measure, counted_rows()),
                          (counts.measure_many_cpus, set() if counts_only else counts.MANY_CPUS_ROWS),
                          (loads.measure, set() if counts_only else set(loads.rows())),
                          (inserts.measure, set() if counts_only else set(inserts.rows()))):
        if not rows:
            continue
        try:
            values |= measure(build=False)
        except (RuntimeError, ValueError, KeyError, OSError, subprocess.SubprocessError) as error:
            reasons |= dict.fromkeys(rows, "the counts failed, see above")
            print(f"bench: {error}", file=sys.stderr)
    return values, reasons


def unmeasured(values, reasons, counts_only):
    """Returns {row: reason} for each row without a value."""
    left_out = NOT_IN_BASELINE if counts_only else ()
    return {row[0]: reasons.get(row[0], "nothing measured it") for row in ROWS if row[0] not in values and row[0] not in left_out}


def meets(value, target):
    if target is None:
        return True
    return value <= target if target >= 0 else value >= -target


def missed(values):
    """Returns lines of text about the rows of `values` that miss their targets."""
    return [f"{name}: {values[name]:g}, and the target is {target:g}" for name, _, _, target, _, _ in ROWS
            if name in values and not meets(values[name], target)]


def counted_rows():
    """Returns the names of the rows of counts.measure()."""
    return {row[0] for row in ROWS} - NOT_IN_BASELINE


def figures(values, reasons):
    """Returns the list for figures.json. A row without a value has the value null and ok false, and gives the reason in `why`."""
    rows = []
    for name, _, unit, target, _, _ in ROWS:
        row = {"name": name, "value": None, "unit": unit, "target": None if target is None else abs(target), "ok": False}
        if name in values:
            rows.append(row | {"value": round(values[name], 3), "ok": meets(values[name], target)})
        elif name in reasons:
            rows.append(row | {"why": reasons[name]})
    return rows


def table(values, reasons):
    lines = [f"{'':52}{'Stele':>10}  {'target':>8}  {'':6}  {'Akaros':>8}  Linux 6.1"]
    for name, what, unit, target, akaros, linux in ROWS:
        wanted = "" if target is None else f"{'≤' if target >= 0 else '≥'} {abs(target):g}"
        if name in values:
            verdict = "" if target is None else "met" if meets(values[name], target) else "MISSED"
            lines.append(f"{what:52}{values[name]:>10,.2f}  {wanted:>8}  {verdict:6}  {akaros:>8}  {linux}".rstrip())
        elif name in reasons:
            lines.append(f"{what:52}{'-':>10}  {wanted:>8}  not measured: {reasons[name]}")
    return "\n".join(lines)


def draw(values, folder):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stele"
    from matplotlib import pyplot

    def line(axes, names, places, *style, **options):
        points = [(place, values[name]) for name, place in zip(names, places) if name in values]
        if points:
            axes.plot(*zip(*points), *style, **options)

    def untraced(axes):
        if "untraced" in values:
            axes.axhline(values["untraced"], color="green", linestyle=":", label="Stele, untraced")

    # Places the legend below the axes, where no lines are.
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
        line(axes, [f"traced_{order}_of_{n}" for n in numbers], numbers, "o-", label=f"Stele, {order} freed")
    axes.plot(numbers, [3032, 21032, 201032], "x--", color="gray", label="Akaros, oldest freed")
    axes.plot(numbers, [2077, 10906, 99868], "x:", color="gray", label="Akaros, random freed")
    axes.axhline(4800, color="brown", linestyle=":", label="Linux, kmemleak")
    untraced(axes)
    axes.set_xscale("log")
    axes.set_yscale("log")
    finish(axes, "outstanding objects", "cost-outstanding.svg")

    depths = range(2, 31, 2)
    axes = pyplot.figure(figsize=(8, 5)).subplots()
    line(axes, [f"traced_depth_{d}" for d in depths], depths, "o-", label="Stele")
    axes.plot([8, 10, 20], [1031, 1073, 1265], "x--", color="gray", label="Akaros")
    untraced(axes)
    finish(axes, "frames", "cost-depth.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts-only", action="store_true")
    parser.add_argument("--write-baseline", action="store_true")
    options = parser.parse_args()
    folder = counts.build_folder() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    with progress.Progress("bench") as shown:
        measure(options, folder, shown)


def measure(options, folder, shown):
    parts = 1 if options.counts_only else 2
    shown.phase(f"counts instructions (part 1 of {parts})")
    values, reasons = counted(options.counts_only)
    unknown = values.keys() - {row[0] for row in ROWS}
    if unknown:
        sys.exit(f"bench: rows without an explanation: {', '.join(sorted(unknown))}")
    if not options.counts_only:
        shown.phase(f"measures the host (part 2 of {parts})")
        host_values, host_reasons = host_figures(folder / "pairs_bench")
        values |= host_values
        reasons |= host_reasons
    reasons = unmeasured(values, reasons, options.counts_only)
    # A count repeats on any machine, so a missing count is an error. Figures of the host may be missing, because the machine may be busy.
    complete = reasons.keys() <= HOST_NEEDS.keys()
    if options.write_baseline and complete:
        counts.write_baseline({name: value for name, value in values.items() if name not in NOT_IN_BASELINE} | loads.measure_short(build=False))
    (folder / "figures.json").write_text(json.dumps(figures(values, reasons), indent=1) + "\n")
    print(table(values, reasons), flush=True)
    charts = "" if options.counts_only else "cost-outstanding.svg, cost-depth.svg, "
    if charts:
        draw(values, folder)
    paths = counts.hot_path(counts.build_folder() / "stele.elf")
    (folder / "untraced.txt").write_text("".join(
        f"{name}: {len(path)} instructions\n" + "".join(f"    {line}\n" for line in path) for name, path in paths.items()))
    print(f"untraced, but for the loop: {' + '.join(str(len(path)) for path in paths.values())} instructions, listed in untraced.txt")
    if not options.counts_only:
        print(f"load of the host meanwhile: {os.getloadavg()[0]:.1f}, with {os.cpu_count()} processors")
    print(f"written: {os.path.relpath(folder)}/figures.json, {charts}untraced.txt")
    if not complete:
        sys.exit("bench: counts are missing" + (", the baseline stays as it was" if options.write_baseline else ""))


if __name__ == "__main__":
    entry.run(main, "bench", failed=1)
