"""Traces of arenas: planted leaks of pages, of large kmalloc objects and of kernel stacks are in the dumps of the arenas, and kmemstat counts
the allocations of the arenas."""
import re

import pytest

from guest import checked, dumps_in, guest, live_counts

pytestmark = pytest.mark.cpus(1)

LEAKS = """
echo start > #mem/kmemtrace/ctl
echo 'leak page 3 depth=4
leak kmalloc 1 depth=4
leak kernel_stack 2 depth=4' > #debug/alloc
echo stop > #mem/kmemtrace/ctl
cat #debug/alloc >&2
for file in '#mem/kmemtrace'/*; do [ "$file" = '#mem/kmemtrace/ctl' ] || cat "$file"; done
echo 'free page 3
free kmalloc 1
free kernel_stack 2' > #debug/alloc
cat #mem/kmemtrace/page #mem/kmemtrace/kernel_virtual
echo reset > #mem/kmemtrace/ctl
"""


def leaked(dump):
    """Returns [(bytes, objects, first frames)] of the groups of planted leaks, most bytes first."""
    groups = []
    for group in dump.groups:
        names = [frame.partition("+")[0] for frame in group.frames]
        if "leak_at_depth" in names:
            groups.append((group.bytes, group.objects, names[:5]))
    return groups


@pytest.mark.cpus(4)
def test_each_stands_once_under_who_leaked_it():
    result = guest(LEAKS)
    assert (result.status, result.stderr) == (0, "page 3\nkmalloc 1\nkernel_stack 2\n"), result
    *held, pages_freed, ranges_freed = dumps_in(result.stdout)
    for dump in held:
        assert dump.broken_identities() == [], result
        assert dump.lost() == {}, result
    frames = ["leak_at_depth"] * 4 + ["debug_alloc_write"]
    where = {dump.name: leaked(dump) for dump in held if leaked(dump)}
    assert where == {
        "page": [(2 * 16384, 2, frames), (20000, 1, frames), (3 * 4096, 3, frames)],
        "kernel_virtual": [(2 * 20480, 2, frames)],
    }, result
    assert (leaked(pages_freed), leaked(ranges_freed)) == ([], [])


def test_sizes_and_interrupts():
    output = checked("""
echo start > #mem/kmemtrace/page
echo 'leak page 2 size=100000 irq
leak kmalloc 3 size=9000 atomic' > #debug/alloc
echo stop > #mem/kmemtrace/page
cat #mem/kmemtrace/page
echo 'free page 2
free kmalloc 3' > #debug/alloc
cat #debug/alloc
""")
    [dump] = dumps_in(output)
    [irq, task] = leaked(dump)
    assert (irq[:2], irq[2][:2]) == ((200000, 2), ["leak_at_depth", "debug_interrupt"])
    assert (task[:2], task[2][:2]) == ((27000, 3), ["leak_at_depth", "debug_alloc_write"])


def test_live_counts():
    result = guest("""
show() { echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat; }
show; echo 'leak kernel_stack 5' > #debug/alloc; show; echo 'free kernel_stack 5' > #debug/alloc; show
""")
    before, held, after = live_counts(result.stdout)
    assert (held["kernel_virtual"] - before["kernel_virtual"], after["kernel_virtual"]) == (5, before["kernel_virtual"]), result
    assert held["page"] >= before["page"] + 5


def test_what_cannot_be():
    result = guest("""
ls #mem/kmemtrace
echo start > #mem/kmemtrace/trace
echo start > #mem/kmemtrace/debug
cat #mem/kmemtrace/trace
echo 'leak debug_64 1 size=100' > #debug/alloc
echo 'leak kernel_stack 1 irq' > #debug/alloc
echo 'leak page 1 size=0' > #debug/alloc
echo 'free page 1' > #debug/alloc
""")
    names = result.stdout.split()
    for name in ("base", "page", "kernel_virtual", "trace"):
        assert names.count(name) == (2 if name == "trace" else 1), result
    assert "it cannot be traced" in result.stdout
    for line, pattern in zip(result.stderr.splitlines(), (
            r"Operation not permitted: trace cannot be traced", r"Operation not permitted: debug cannot be traced",
            r"Invalid argument: debug_64: only an arena and kmalloc take size=BYTES", r"Invalid argument: kernel_stack takes neither irq nor atomic",
            r"Invalid argument: \"size=0\": a size is a number", r"Invalid argument: 0 objects of page are held, not 1"), strict=True):
        assert re.search(pattern, line)
