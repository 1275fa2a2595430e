"""The ports (user/ports/ports.mk) are unpatched programs of other authors. This module runs their tests: upstream's
tests, and some of our own.

`make test-ports` runs all tests of each port in the guest and on the host, with programs built from the same source, and compares their output.
`make test` runs only short tests that check their own results. user/ports/PORT/tests marks them with +.
"""
import os
import re
import subprocess

import pytest

from guest import BUILD, ROOT, guest, leaktest

PORTS = ROOT / "user/ports"
NATIVE = BUILD / "ports/native"
SECONDS = 3000  # time limit for all tests of one port, on a busy machine


def lines_of(path):
    """Returns [(first word, rest)] of each line that is neither empty nor a comment. A file that is missing has no lines."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
    return [tuple((line.split(None, 1) + [""])[:2]) for line in lines if line and not line.startswith("#")]


MARKS = "+-"  # +: the test is short and checks its own results, so `port-tests -s` runs it; -: the test takes long
TESTS = {path.parent.name: [name for name, _ in lines_of(path)] for path in sorted(PORTS.glob("*/tests"))}
SHORT = {port: [name[1:] for name in names if name.startswith("+")] for port, names in TESTS.items() if any(name.startswith("+") for name in names)}


def results_of(output):
    """Returns {PORT/TEST: output and status} from the output of port-tests."""
    found = re.findall(r"^=== (\S+)\n(.*?)^=== status (\d+)\n", output, re.M | re.S)
    return {name: (body, int(status)) for name, body, status in found}


def native(port):
    """Runs the port's tests on the host, with host programs that are built from the source of the port. Returns the results in the form of
    results_of()."""
    there = NATIVE / port
    environment = {**os.environ, "PATH": f"{there}/bin:{os.environ['PATH']}", "PORTS": str(there / "usr/ports"), "LC_ALL": "C", "TZ": "UTC"}
    run = subprocess.run([str(there / "bin/port-tests"), port], capture_output=True, timeout=SECONDS, check=False, env=environment)
    return results_of(run.stdout.decode("utf-8", "replace"))


@pytest.mark.cpus(1)
def test_short():
    """In each port, the short tests (marked with +) pass."""
    result = guest("\n".join(f"port-tests -s {port}" for port in SHORT), *(word for port in SHORT for word in ("--port", port)))
    results = results_of(result.stdout)
    assert list(results) == [f"{port}/{name}" for port, names in SHORT.items() for name in names], result
    assert not [name for name, (_, status) in results.items() if status != 0]


@pytest.mark.cpus(4)
@pytest.mark.long
@pytest.mark.parametrize("port", TESTS)
def test_as_here(port):
    """All tests of a port pass in the guest and on the host, and print the same output in both places."""
    expected = native(port)
    # The guest has 2 GiB because of sqlite's test checkpoint_starvation_1: on a fast machine, its log would fill the /tmp of a guest with 512 MiB.
    result = guest(f"port-tests {port}", "--port", port, "--mem", "2G", "--timeout", str(SECONDS))
    results = results_of(result.stdout)
    assert list(results) == list(expected) == [f"{port}/{name.lstrip(MARKS)}" for name in TESTS[port]], result
    assert not [name for name, (_, status) in expected.items() if status != 0], expected
    for name, (body, status) in expected.items():
        assert (name, *results[name]) == (name, body, status)


@pytest.mark.long
@pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)])
@pytest.mark.parametrize("port", TESTS)
def test_leaves_nothing_behind(port, number):
    """Runs a leak test of a port. The test's command runs the port's tests to the end, and then runs them again and kills each of them in the middle.
    Long tests are left out (-q)."""
    result = leaktest(f"port-tests -q {port}; port-tests -qk $$ {port}", "--port", port, "--runs", "8", "--repeat", "3", "--timeout", "3600")
    assert result.status == 0, result


@pytest.mark.cpus(4)
@pytest.mark.long
def test_mix():
    """scripts/load runs a mix of the tests of all ports without an error, and prints the cost of tracing."""
    run = subprocess.run([str(ROOT / "scripts/load"), "--minutes", "0.5", "--seed", "1"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    rounds = {words[0]: int(words[1]) for words in map(str.split, run.stdout.splitlines()) if len(words) == 5 and words[0] in ("off", "all", "sampled")}
    assert set(rounds) == {"off", "all", "sampled"} and set(rounds.values()) == {rounds["off"]} and rounds["off"] > 0


@pytest.mark.parametrize("port", TESTS)
def test_what_is_skipped_says_why(port):
    """Each skipped test of a port has a reason of at least three words, and is not among the tests that are run."""
    skipped = lines_of(PORTS / port / "skipped")
    assert all(len(reason.split()) >= 3 for _, reason in skipped), skipped
    assert not {name for name, _ in skipped} & {name.lstrip(MARKS) for name in TESTS[port]}
