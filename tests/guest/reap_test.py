"""The command `reap` to #mem/kmemtrace/ctl frees the memory of idle objects. Live objects stay."""
import pytest

from guest import guest

pytestmark = pytest.mark.cpus(1)

SCRIPT = """
show() { cat #mem/free; grep -w -e NAME -e debug_1024 -e debug_64 #mem/slab_stats; }
echo 'leak debug_64 3' > #debug/alloc
echo 'leak debug_1024 5000' > #debug/alloc; echo 'free debug_1024 5000' > #debug/alloc
show; echo reap > #mem/kmemtrace/ctl; show
echo 'free debug_64 3' > #debug/alloc; echo 'churn debug_1024 100' > #debug/alloc; echo good
"""


def parts(text):
    """Returns a list with one element for each `show`: (free bytes of memory, {cache: {column of slab_stats: number}})."""
    shows, names = [], []
    for line in text.splitlines():
        words = line.split()
        if words[0] == "free":
            shows.append((int(words[1]), {}))
        elif words[0] == "NAME":
            names = words
        elif len(words) == len(names) > 0:
            shows[-1][1][words[0]] = {name: int(word) for name, word in zip(names, words) if word.isdigit()}
    return shows


def test_memory_that_idles_goes_back():
    result = guest(SCRIPT)
    assert result.status == 0, result
    assert result.stdout.splitlines()[-1] == "good", result
    (free_before, before), (free_after, after) = parts(result.stdout)
    idle = before["debug_1024"]
    assert idle["LIVE"] == 0, result
    assert idle["MAGROUNDS"] == 5000, result
    assert free_after - free_before > 4_500_000, result
    assert (after["debug_1024"]["SLABS"], after["debug_1024"]["MAGROUNDS"]) == (0, 0), result
    assert after["debug_1024"]["REAPED"] > idle["FULLMAGS"], result
    assert (after["debug_64"]["LIVE"], after["debug_64"]["SLABS"]) == (3, 1), result
