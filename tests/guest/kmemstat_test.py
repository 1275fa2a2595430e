"""The lines of #mem/kmemstat are consistent with each other, although the kernel allocates memory for the text itself."""
import pytest

from guest import checked

pytestmark = pytest.mark.cpus(1)


def page_arena(text):
    """Returns two sums of bytes for the page arena. Both are the memory that caches and arenas have taken from the page arena, except allocations
    that are too large for a quantum cache.

    The first sum is ALLOCATED of all the quantum caches (page_…), minus ALLOCATED of the line `page` itself. That line counts only the memory
    of users other than caches and arenas. The second sum is TOTAL of the caches and arenas one level below the page arena."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["page", "A"])
    indent = len(lines[start]) - len(lines[start].lstrip())
    handed_out, below = -int(lines[start].split()[4]), 0
    for line in lines[start + 1:]:
        depth = len(line) - len(line.lstrip())
        if depth <= indent:
            break
        name, _, _, total, allocated = line.split()[:5]
        if depth == indent + 2 and name.startswith("page_"):
            handed_out += int(allocated)
        elif depth == indent + 2:
            below += int(total)
    return handed_out, below


def test_a_text_counts_its_own_memory_everywhere():
    """After a reap, the kernel must create slabs while it formats the text."""
    output = checked("""for i in 1 2 3 4 5 6 7 8; do echo reap > #mem/kmemtrace/ctl; cat #mem/kmemstat > /tmp/text; echo "== $i"; cat /tmp/text; done""")
    texts = [part.partition("\n")[2] for part in output.split("== ")[1:]]
    # The difference is 0, because no allocation is too large for the quantum caches.
    apart = [handed_out - below for handed_out, below in map(page_arena, texts)]
    assert len(apart) == 8
    assert set(apart) == {apart[0]} == {0}, apart
