"""Measures how long interrupts are off in each operation of the tracer and of probes. The kernel lists the longest stretches with interrupts
off in #mem/irqoff.

Under -icount with one CPU a tick of the time stamp counter is an instruction, so the length of a stretch is exact. The kernel needs
IRQ_OFF_TRACE (docs/testing.md), as in the variant `irqoff`.
"""
import re

LIMIT = 20_000  # instructions
# Limit while every function has a probe, in instructions. A probe adds about 250 instructions to
# each call. So interrupts are off for long during many calls, for example while a CPU returns its
# magazines. How many calls there are depends on the compiler, which inlines some.
LIMIT_ALL_PROBED = 150_000

# The parts of the script for the guest. After each operation it calls `show` with the operation's name. `show`
# prints the name and #mem/irqoff, and resets #mem/irqoff. {n}, {ranges} and {times} are the
# arguments of script().
SHOW = "show() { echo \"== $1\"; cat '#mem/irqoff'; echo reset > '#mem/irqoff'; }\nshow boot"
OPERATIONS = """
echo limit 700M > #mem/kmemtrace/ctl
echo start > #mem/kmemtrace/ctl; show 'start of all'
echo 'leak debug_64 {n}' > #debug/alloc; show records
for i in {times}; do ls / | cat > /dev/null; done; show pipelines
echo mark > #mem/kmemtrace/ctl; show mark
echo sweep > #mem/kmemtrace/ctl; show sweep
cat #mem/kmemtrace/debug_64 > /tmp/dump; show text
head -n 2 /tmp/dump; rm /tmp/dump
cat #mem/kmemtrace/debug_64 > /dev/null & sleep 0.02; {{ kill -9 $!; wait $!; }} 2> /dev/null; show 'text, reader killed'
cat #mem/tracedump > /dev/null; show tracedump
cat #mem/tracedump > /dev/null & sleep 0.02; {{ kill -9 $!; wait $!; }} 2> /dev/null; show 'tracedump, reader killed'
cat #mem/kmemtrace/ctl > /dev/null; show ctl
cat #mem/kmemstat #mem/slab_stats #mem/arena_stats > /dev/null; show statistics
cat #mem/unreachable > /dev/null; show unreachable
echo reset > #mem/kmemtrace/ctl; show 'reset while running'
echo 'free debug_64 {n}' > #debug/alloc; show frees
echo 'leak debug_64 {n}' > #debug/alloc; show 'records again'
echo stop > #mem/kmemtrace/ctl; show stop
echo 'free debug_64 {n}' > #debug/alloc; show 'frees after stop'
echo sweep > #mem/kmemtrace/ctl; show 'sweep of what is free'
echo settle > #mem/kmemtrace/ctl; show settle
echo reset > #mem/kmemtrace/ctl; show 'reset after stop'
echo reap > #mem/kmemtrace/ctl; show reap
echo 'start sample=64' > #mem/kmemtrace/debug_64; echo 'leak debug_64 {n}' > #debug/alloc; show sampled
cat #mem/kmemtrace/ctl > /dev/null; show 'ctl of what is sampled'
printf 'stop\\nreset' > #mem/kmemtrace/debug_64; echo 'free debug_64 {n}' > #debug/alloc; show 'sampled, off'
for word in check scan nocheck; do echo $word > #mem/kmemtrace/debug_64; done; show checking
exec 3<>#probe/clone; read n <&3
printf '%s\\n' 'alloc kmem_cache_alloc size=2' 'free kmem_cache_free address=2' 'watch memory' start >&3; show 'session with objects'
echo 'leak debug_64 {n}' > #debug/alloc; show objects
cat "#probe/$n/outstanding" > /dev/null; show outstanding
ls / > /dev/null; show 'a process ends beside objects'
echo sweep > #mem/kmemtrace/ctl; show 'sweep beside objects'
heaptest ranges {ranges} > /dev/null; show 'mmap and munmap beside ranges'
head -n 2 "#probe/$n/counts"
echo clear >&3; show 'objects cleared'
exec 3>&-; show 'session with objects closed'
echo 'free debug_64 {n}' > #debug/alloc
exec 3<>#probe/clone; read n <&3
printf 'event+return pipe*\\nstart' >&3; exec 4< "#probe/$n/events"
for i in {times}; do ls / | cat > /dev/null; done; echo stop >&3; cat <&4 > /dev/null; exec 3>&- 4>&-; show events
stackcount -D 1 'busybox:*' > /dev/null; show 'a program probed'
"""
ALL_PROBED = """
exec 3<>#probe/clone; read n <&3
echo 'count *' >&3; show 'all functions named'
echo start >&3; show 'all probed'
ls / | cat > /dev/null; show 'all probed: pipeline'
echo sweep > #mem/kmemtrace/ctl; show 'all probed: sweep'
echo start > #mem/kmemtrace/ctl; cat #mem/kmemstat > /dev/null; show 'all probed: start'
echo stop > #mem/kmemtrace/ctl; echo reset > #mem/kmemtrace/ctl; echo reap > #mem/kmemtrace/ctl; show 'all probed: reset'
cat "#probe/$n/counts" > /dev/null; show 'all probed: counts'
echo clear >&3; show 'all probed: cleared'
echo stop >&3; show 'all probed: stop'
exec 3>&-; show 'session closed'
"""

STRETCH = re.compile(r"^(\d+) ticks cpu \d+ (?:pid \d+ \S+|task \S+)\n"
                     r"\toff (?P<off>.+)\+0x[0-9a-f]+ on (?P<on>.+)\+0x[0-9a-f]+\n(?P<frames>(?:\t.*\n)*)", re.M)


def script(records, ranges, times):
    """Returns the script for the guest. The script makes `records` live objects at once, and a process with `ranges` ranges of memory. Two of the
    operations run the pipeline `ls / | cat` `times` times each."""
    return "\n".join([SHOW, operations(OPERATIONS + ALL_PROBED, records, ranges, times), "echo '== end'"])


def operations(text, records, ranges, times):
    return text.format(n=records, ranges=ranges, times=" ".join(map(str, range(times))))


def silent_script(records, ranges, times):
    """Returns the script without the steps in which every function is probed, for a kernel without #mem/irqoff."""
    return "\n".join(["show() { :; }", operations(OPERATIONS, records, ranges, times)])


def steps_in(output):
    """Splits the script's output into {operation: text of #mem/irqoff}."""
    return {step: text for step, _, text in (part.partition("\n") for part in output.split("== ")[1:])}


def stretches_in(text):
    """Returns [(ticks, function that turned interrupts off, function that turned interrupts on, [caller, …])] for each stretch in the text of
    #mem/irqoff."""
    found = [(int(match[1]), match["off"], match["on"], re.findall(r"^\t(.+)\+0x[0-9a-f]+ \[kernel\]$", match["frames"], re.M))
             for match in STRETCH.finditer(text)]
    if len(found) != len(re.findall(r"^\d+ ticks", text, re.M)):
        raise ValueError(f"not what #mem/irqoff says: {text}")
    return found


def stops_the_world(step, off):
    """True if the kernel stops all CPUs during the stretch. The length of such a stretch is not
    limited."""
    return step == "unreachable" and off.endswith("world_stopped")


def bound(step, off):
    """Returns the maximum number of instructions for a stretch."""
    if stops_the_world(step, off):
        return float("inf")
    return LIMIT_ALL_PROBED if step.startswith("all probed") else LIMIT
