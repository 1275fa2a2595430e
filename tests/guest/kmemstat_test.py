"""#mem is consistent: its own text takes memory, which must not be in some lines and missing in
others."""
import pytest

from guest import guest

pytestmark = pytest.mark.cpus(1)


def page_arena(text):
    """For the page arena: the memory that its quantum caches have allocated beyond its callers'
    bytes, and the memory that caches and arenas have of it."""
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
    """After a reap the text needs slabs that are not there; they are made during it."""
    result = guest("""for i in 1 2 3 4 5 6 7 8; do echo reap > #mem/kmemtrace/ctl; cat #mem/kmemstat > /tmp/text; echo "== $i"; cat /tmp/text; done""")
    assert (result.status, result.stderr) == (0, ""), result
    texts = [part.partition("\n")[2] for part in result.stdout.split("== ")[1:]]
    # Allocations too large for quantum caches are the same in all.
    apart = [handed_out - below for handed_out, below in map(page_arena, texts)]
    assert len(apart) == 8
    assert set(apart) == {apart[0]} == {0}, apart
