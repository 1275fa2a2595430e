"""The leak test with --frees says who freed the other objects of an accused stack. The leaks are those of #debug/leaky and #debug/alloc."""
import json
import re

import pytest

from guest import leaktest

pytestmark = pytest.mark.cpus(1)
FRAME = r"{}  kern/\S+:\d+"


def test_who_freed_the_objects_that_did_not_leak(tmp_path):
    """leaky/clean and leaky/leak allocate with the same stack, and only the close of leaky/clean frees. A count that goes to the wrong stack, or that
    has the frees of other runs, would be seen here."""
    result = leaktest("leakdemo clean; leakdemo leak 2", "--quick", "--frees", "--report", tmp_path / "report.txt")
    assert result.status == 1, result
    leak = result.stdout[result.stdout.index(" of leaky from stack"):]
    assert re.search(r"^    of 60 objects of this stack, 50 were freed, by:\n"
                     rf"        50  {FRAME.format('leaky_close')} < .* …\n"
                     r"    and the 10 that are left were not\n", leak, re.M), result
    assert leak.index("leaky_open") < leak.index("of 60 objects") < leak.index("    marks ")
    [fact] = [fact for fact in json.loads((tmp_path / "report.json").read_text())["commands"][0]["leaks"] if fact["name"] == "leaky"]
    [by] = fact["freed_by"]
    assert (fact["freed"], fact["frees_missing"], by["objects"], by["stack"][0]) == (50, False, 50, "leaky_close")


def test_nobody_freed_any():
    result = leaktest("leakdemo leak 2", "--quick", "--frees")
    assert result.status == 1, result
    assert "    none of this stack's objects was freed by anybody\n" in result.stdout, result


def test_without_the_option_nothing_is_said():
    result = leaktest("leakdemo clean; leakdemo leak 2", "--quick")
    assert (result.status, "freed" in result.stdout) == (1, False), result


def test_clean_stays_clean():
    """What the counts themselves take in the traced runs is no leak, and no doubt."""
    result = leaktest("leakdemo clean", "--quick", "--frees")
    assert (result.status, result.stdout.splitlines()[0]) == (0, "CLEAN"), result
