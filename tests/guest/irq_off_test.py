"""#mem/irqoff shows the longest stretches with interrupts off, and stretches in code of the tracer and of probes are short.

The tests measure under --icount with one CPU. A tick is then an instruction, so the length of a
stretch is exact. Most tests run in the kernel `debug`, whose locks take a few instructions more
than those of the default kernel. The long test runs in `irqoff`, the default kernel with
IRQ_OFF_TRACE.
"""
import re

import pytest

import irq_off
import scale
import stretches
from guest import guest, kernel_test, sections_of
from irq_off import LIMIT, bound, stretches_in

pytestmark = [pytest.mark.cpus(1), pytest.mark.icount]


def measured(script, variant, *options):
    return guest(script, "--icount", "--variant", variant, *options)


def test_file():
    """Only root can use #mem/irqoff. It lists the longest stretch first, the word `reset` empties it, and it rejects all other input."""
    result = measured("""
echo == boot; cat '#mem/irqoff'
echo == nobody; proctest walk 65534 '#mem/irqoff'
for word in resetx 'reset all' start RESET 'reset\\0'; do printf "$word" > /tmp/in; dd if=/tmp/in of='#mem/irqoff' conv=notrunc; done
yes reset | head -c 100000 > /tmp/in; dd bs=100000 if=/tmp/in of='#mem/irqoff' conv=notrunc
echo == kept; cat '#mem/irqoff'
printf '\\n reset\\n\\n' > '#mem/irqoff'
echo == reset; cat '#mem/irqoff'
ls -l '#mem' | grep irqoff
""", "debug")
    parts = sections_of(result.stdout)
    boot, kept, reset = (stretches_in(parts[name]) for name in ("boot", "kept", "reset"))
    for stretches in (boot, kept, reset):
        assert 4 < len(stretches) <= 16, result
        assert [stretch[0] for stretch in stretches] == sorted((stretch[0] for stretch in stretches), reverse=True), result
        assert len({stretch[1:3] for stretch in stretches}) > 4, result
    at_boot = [stretch for stretch in boot if stretch[1] == "random_device_init"]
    assert at_boot and at_boot[0][3][:2] == ["devices_init", "finish_boot"], result
    assert at_boot[0] in kept and at_boot[0] not in reset, result
    assert "-rw-------" in result.stdout, result
    assert parts["nobody"] == "walked 1\n", result
    assert result.stderr.count("expected reset") == 5 and "at most 4096" in result.stderr, result


def test_only_with_the_option():
    result = guest("ls '#mem'; cat '#mem/irqoff'")
    assert "kmemstat" in result.stdout and "irqoff" not in result.stdout, result
    assert "No such file or directory" in result.stderr, result


def test_idle_is_on():
    result = measured("echo reset > '#mem/irqoff'; sleep 0.2; cat '#mem/irqoff'", "debug")
    assert max(stretch[0] for stretch in stretches_in(result.stdout)) < LIMIT, result


def test_exact():
    """Runs the kernel's own tests of #mem/irqoff (kern/tests/irq_off_test.cc) under --icount, where lengths are exact."""
    run = kernel_test("irq_off", "--icount", "--smp", "1")
    assert (run.status, run.stderr.count("\nok ")) == (0, 5)


def test_statistics_look_at_one_cache_at_a_time():
    """arena_stats() turns interrupts off for one cache at a time. An arena has eight quantum caches, and each cache has counts for each CPU. With
    64 CPUs, a stretch that adds up the counts of all eight caches would take 10,000 instructions."""
    result = measured("cat '#mem/kmemstat' > /dev/null; echo reset > '#mem/irqoff'; cat '#mem/kmemstat' > /dev/null; cat '#mem/irqoff'", "debug")
    of_arenas = [ticks for ticks, off, _, _ in stretches_in(result.stdout) if off == "arena_stats"]
    assert of_arenas and max(of_arenas) < 1_000, result


@pytest.mark.parametrize("variant, records, ranges, times", (
    ("debug", 20_000, 1_000, 5),
    pytest.param("irqoff", 1_000_000, 20_000, 300, marks=pytest.mark.long),
))
def test_operations(variant, records, ranges, times):
    """No stretch in an operation of bench/irq_off.py is longer than bound() allows."""
    result = measured(irq_off.script(records, ranges, times), variant, "--mem", "1500M" if records > 100_000 else "512M", "--timeout", "1200")
    steps = irq_off.steps_in(result.stdout)
    assert "end" in steps and result.status == 0, result
    # Check that the script did its work.
    assert f" live {records} " in steps["text"] and int(re.search(r"^hits \d+ counted (\d+)", steps["mmap and munmap beside ranges"], re.M)[1]) > records
    assert any(ticks > LIMIT and off.endswith("world_stopped") for ticks, off, _, _ in stretches_in(steps["unreachable"])), result
    assert len(steps) > 40 and all(stretches_in(text) for step, text in steps.items() if step != "end")
    too_long = [f"{step}: {ticks} instructions from {off} to {on}, called by {', '.join(frames)}"
                for step, text in steps.items() for ticks, off, on, frames in stretches_in(text) if ticks > bound(step, off)]
    assert not too_long, "\n".join(too_long)


def test_report_for_want_of_memory():
    """When the kernel kills a process for lack of memory, it reports the stacks that hold most memory. No stretch of this report is longer than
    LIMIT, even if the report has to add up very many records. For this reason the script first fills nearly all memory with traced objects."""
    result = measured("""
echo start > '#mem/kmemtrace/debug_1024'
for n in 10000 1000 100; do while echo "leak debug_1024 $n" > #debug/alloc; do :; done 2> /dev/null; done
echo 'free debug_1024 1500' > #debug/alloc
echo reset > '#mem/irqoff'
sh -c 'text=x; while :; do text="$text$text"; done'
echo 'free debug_1024 2000' > #debug/alloc
cat '#mem/irqoff'; cat '#mem/kmemtrace/ctl'
""", "debug", "--mem", "48M")
    live = int(re.search(r"^kmemtrace debug_1024 .* live (\d+) ", result.stdout, re.M)[1]) + 2000
    stretches = stretches_in(result.stdout)
    assert "trace_report_out_of_memory" in result.stdout and live > 20_000, result
    assert all(ticks <= LIMIT for ticks, off, _, _ in stretches), result


@pytest.mark.parametrize("what, done, most", (
    ("pollers", "20 of 20 pollers", 60_000),
    ("deaf", "500 threads, 32 timers", 100_000),
))
def test_a_user_cannot_turn_interrupts_off_for_long(what, done, most):
    """`pollers` wakes 20 threads, each of which polls a file 256 times. In `deaf`, 32 timers send signals in each tick to a process of 500 threads
    that ignores these signals. The end of a process wakes its threads, all in one stretch."""
    result = measured(f"echo reset > '#mem/irqoff'; proctest as 65534 sigtest {what}; cat '#mem/irqoff'", "debug")
    said, _, stretches = result.stdout.partition("\n")
    assert said == done, result
    assert max(ticks for ticks, off, _, _ in stretches_in(stretches) if off != "process_exit") < most, result


@pytest.mark.long
def test_the_plugin_of_many_cpus_measures_what_the_kernel_measures():
    """Both measure a fork's fd_table_copy(), whose length does not depend on the load. The kernel's measurement adds a few instructions. Would
    find that the plugin counts what other CPUs, which are busy, execute during a stretch."""
    load = "echo start > '#mem/kmemtrace/ctl'; i=0; while [ $i -lt 100 ]; do ls / > /dev/null; i=$((i+1)); done"
    busy = "for n in 1 2 3; do while :; do : < /dev/null; done & done"
    result = measured(f"{load}; cat '#mem/irqoff'", "irqoff")
    in_kernel = max(ticks for ticks, off, _, _ in stretches_in(result.stdout) if off == "fd_table_copy")
    for cpus, script in ((1, load), (4, f"{busy}\n{load}")):
        found = stretches.measure(script, 300, cpus=cpus)
        by_plugin = max(number for number, off, _ in found if off == "fd_table_copy")
        assert found[0][0] < LIMIT, found[:5]
        assert abs(by_plugin - in_kernel) < 20, (by_plugin, in_kernel)


@pytest.mark.long
def test_stretches_are_short_on_many_cpus():
    """A free on one of several CPUs may search the shards of all others, with interrupts off."""
    found = scale.irq_off_on(16)
    assert found[0][0] < LIMIT, found[:5]
    assert any(off == "kmem_cache_free" for _, off, _ in found), found[:50]
