"""How scripts/leaktest judges the passes of its guests, and what it reports if a guest fails. In a
pass, a guest runs the tested command several times. The guests are fakes."""
import os
import subprocess
from types import SimpleNamespace

import pytest

import checkout
from guest import leaktest
from leak_fakes import dump, group, series, source
from stele.leak_command import Run
from stele.leak_counts import parse_counts
from stele.leak_unreachable import Lost, Unreachable
from stele.leak_guest import Boot, Failure, Pass
from stele.leaks import CLEAN, LEAKED, UNKNOWN

COUNTS = "debug_64 S 64 0 0 0 0 0 on\n"


@pytest.fixture(name="script", scope="module")
def leaktest_script():
    return checkout.script("leaktest")


NOTHING = Unreachable([], 0)


def untraced_pass(looks, low=False, lost=()):
    return Pass(looks=looks, counts=[look.counts for look in looks], low=low, ended=True, unreachable=[NOTHING, Unreachable(list(lost), 0)])


def traced_pass(left=(), lost=()):
    """Returns a pass of five traced runs. `left`: the groups of objects that stay after the runs.
    `lost`: the unreachable objects in the report after the runs."""
    dumps = [dump(source(), commands=7), dump(source(), commands=12)]
    for one in dumps:
        one.build_id, one.left = "0a1b", left
    return Pass(dumps=dumps, counts=[parse_counts(COUNTS)] * 2, ends=[Run(0, 0.1)] * 6, settled=True, runs=5, ended=True,
                unreachable=[NOTHING, Unreachable(list(lost), 0)])


def boot(*passes, status=0, out_of_memory=False):
    return Boot(status, list(passes), None, out_of_memory)


FAILED = boot(status=124)
NO_MEMORY = boot(Pass(counts=[parse_counts(COUNTS)] * 2), status=3, out_of_memory=True)
STILL, RISING = series(*8 * [3]), series(*range(8))


class FakeGuests:
    """Fake guests. `untraced` is the boot that untraced() returns, an exception that it raises, or
    the looks of each pass of the boot. `traced` has one boot or exception for each call of traced();
    all further calls return or raise the last one."""

    def __init__(self, untraced, traced):
        self.boots, self.traced_boots = untraced, list(traced)

    def untraced(self, commands, _):
        if isinstance(self.boots, Exception):
            raise self.boots
        return boot(*(untraced_pass([series(0)[0], *self.boots]) for _ in commands)) if isinstance(self.boots, list) else self.boots

    def idle(self, *_):
        return FAILED

    def traced(self, *_):
        one = self.traced_boots.pop(0) if len(self.traced_boots) > 1 else self.traced_boots[0]
        if isinstance(one, Exception):
            raise one
        return one


@pytest.fixture
def leak_test(script, monkeypatch):
    """Returns a function that makes a LeakTest with fake guests."""
    monkeypatch.setattr(script, "groups_of", lambda dump, kernel, lying: list(dump.left))
    monkeypatch.setattr(script, "find_keepers", lambda *_: None)

    def make(untraced, *traced, quick=False):
        test = script.LeakTest.__new__(script.LeakTest)
        test.repeat, test.runs, test.quick, test.expected, test.names_keepers = 5, 128, quick, [], True
        test.guests = FakeGuests(untraced, traced)
        test.kernel, test.program_files, test.elf = SimpleNamespace(build_id="0a1b", elf="stele.elf"), [], None
        test.suppressions, test.baseline = (), script.Baseline()
        return test
    return make


def test_nothing_grows_and_nothing_stays(leak_test):
    result = leak_test(STILL, boot(traced_pass())).test_safely("true")
    assert (result.status, result.text.startswith("CLEAN\nleak test of: true\nruns: ")) == (CLEAN, True)


def test_what_keeps_objects_is_asked_only_of_a_leak(leak_test, script, monkeypatch):
    asked = []
    monkeypatch.setattr(script, "find_keepers", lambda verdict, dump, kernel, guests, command, half: asked.append((command, half)))
    assert leak_test(STILL, boot(traced_pass())).test_safely("true").status == CLEAN
    assert leak_test(STILL, boot(traced_pass(left=[group([0, 1])]))).test_safely("ls").status == LEAKED
    quiet = leak_test(STILL, boot(traced_pass(left=[group([0, 1])])))
    quiet.names_keepers = False
    assert quiet.test_safely("ls").status == LEAKED
    assert asked == [("ls", 5)]


def test_an_error_there_does_not_change_the_verdict(leak_test, script, monkeypatch, capsys):
    def fails(*_):
        raise Failure("the guest ended with status 124")
    monkeypatch.setattr(script, "find_keepers", fails)
    result = leak_test(STILL, boot(traced_pass(left=[group([0, 1])]))).test_safely("true")
    assert (result.status, "LEAKED: 128 bytes from 1 stacks" in result.text) == (LEAKED, True)
    assert capsys.readouterr().err.startswith("leaktest: the guest ended with status 124\n")


def test_half_of_memory_in_too_few_looks_cannot_be_judged(leak_test):
    """Only the untraced runs have the leak. The leak is so fast that the untraced pass ends after
    three looks. The first element of `looks` is the look before the runs, which does not count."""
    looks = [series(0)[0], *series(10_000, 20_000, 30_000)]
    result = leak_test(boot(untraced_pass(looks, low=True)), boot(traced_pass())).test_safely("true")
    assert result.status == UNKNOWN
    assert "    half of memory was used up after 48 untraced runs, too few looks to judge by counts; 1920000 bytes of chan had grown\n" in result.text


def test_half_of_memory_in_enough_looks_is_judged(leak_test):
    looks = [series(0)[0], *series(1, 2, 3, 4, 5)]
    assert leak_test(boot(untraced_pass(looks, low=True)), boot(traced_pass())).test_safely("true").status == LEAKED


@pytest.mark.parametrize("failed, why", [(FAILED, "the guest ended with status 124"), (NO_MEMORY, "memory ran out"), (OSError("no such guest"), "no such guest")],
                         ids=["failed", "no memory", "error"])
def test_what_grew_stays_a_leak_though_the_traced_runs_fail(leak_test, failed, why):
    result = leak_test(RISING, failed).test_safely("true")
    assert result.status == LEAKED
    assert "LEAKED (by counts): 6 objects, 384 bytes of chan in 96 untraced runs (7 looks)\n    the traced runs failed, so no stack is known\n" in result.text
    assert f"what is not known:\n    the traced runs failed: {why}\n" in result.text
    assert (result.facts["traced_runs"], [one["name"] for one in result.facts["growths"]]) == (0, ["chan"])
    # A growth that was judged by fewer than four looks is a leak only if a stack is known. Of the
    # four looks here, the first is left out, and no stack is known. So the verdict is unknown.
    assert leak_test(RISING[:4], failed).test_safely("true").status == UNKNOWN


@pytest.mark.parametrize("failed", [FAILED, NO_MEMORY, OSError("no such guest")], ids=["failed", "no memory", "error"])
def test_what_the_first_traced_runs_found_stays_though_the_second_fail(leak_test, failed):
    result = leak_test(RISING, boot(traced_pass([group([0, 1])])), failed).test_safely("true")
    assert result.status == LEAKED
    assert "debug_64 from stack" in result.text and "LEAKED (by counts)" in result.text


def test_what_was_lost_once_is_a_leak(leak_test):
    """First, the object is lost in only one of the traced runs. Then it is lost in the untraced
    runs, while the traced runs lose nothing, or fail."""
    lost = Lost("debug_64", 1, 64, addresses=[0x1000])
    result = leak_test(STILL, boot(traced_pass([group([3])], [lost]))).test_safely("true")
    assert result.status == LEAKED
    assert ("LEAKED (unreachable): nobody can reach 64 bytes in 1 objects of debug_64, lost in 5 traced runs\n\n"
            "64 bytes in 1 allocations of debug_64 from stack\n    leak_at_depth+0x34  kern/a.cc:2\n") in result.text
    assert "not repeated" not in result.text
    test = leak_test(STILL, boot(traced_pass()))
    test.guests.boots = boot(untraced_pass([series(0)[0], *STILL], lost=[lost]))
    result = test.test_safely("true")
    assert result.status == LEAKED
    assert ("LEAKED (unreachable): nobody can reach 64 bytes in 1 objects of debug_64, lost in 129 untraced runs\n"
            "    the traced runs lost none of it, so no stack is known\n") in result.text
    test.guests.traced_boots = [FAILED]
    assert test.test_safely("true").status == LEAKED


def test_without_a_look_it_cannot_be_said(leak_test):
    one = traced_pass()
    one.unreachable[1] = None
    result = leak_test(STILL, boot(one)).test_safely("true")
    assert result.status == UNKNOWN
    assert "it is not known what nobody can reach: there was no memory to look, or the output was cut\n" in result.text


def test_failures_without_growth_cannot_be_judged(leak_test):
    results = [leak_test(STILL, failed).test_safely("true") for failed in (FAILED, NO_MEMORY, OSError("no such guest"))]
    assert [(one.status, one.why) for one in results] == [
        (UNKNOWN, "the guest ended with status 124"), (UNKNOWN, "memory ran out"), (UNKNOWN, "no such guest")]


# The command itself: without a leak, a command that does not do its work is not clean.


def ending(one, *statuses):
    one.ends = [Run(status, 0.1) for status in statuses]
    return one


@pytest.mark.parametrize("untraced, traced, verdict, first", [
    ([0] * 9, [0] * 6, CLEAN, "CLEAN\n"), ([7] * 9, [7] * 6, CLEAN, "CLEAN\n"),
    ([127] * 9, [127] * 6, UNKNOWN, "UNKNOWN\nleak test of: true\nwhat is not known:\n    the command was not found (status 127)\n\nruns: "),
    ([0] * 9, [0, 0, 0, 0, 0, 1], UNKNOWN, "UNKNOWN\n"), ([0, 1], [0] * 6, UNKNOWN, "UNKNOWN\n"),
])
def test_a_command_that_does_not_work_is_not_clean(leak_test, untraced, traced, verdict, first):
    looks = [series(0)[0], *STILL]
    result = leak_test(boot(ending(untraced_pass(looks), *untraced)), boot(ending(traced_pass(), *traced))).test_safely("true")
    assert (result.status, result.text.startswith(first)) == (verdict, True), result.text
    quick = leak_test(STILL, boot(ending(traced_pass(), *traced)), quick=True).test_safely("true")
    assert quick.status == (UNKNOWN if set(traced) not in ({0}, {7}) else CLEAN)


def test_a_leak_is_a_leak_however_the_command_ends(leak_test):
    result = leak_test(STILL, boot(ending(traced_pass([group([0, 1])]), *[139] * 6))).test_safely("true")
    assert (result.status, result.text.startswith("LEAK\nleak test of: true\nruns: ")) == (LEAKED, True)
    assert "\nwhat is not known:\n    the command was killed by SIGSEGV (status 139)" in result.text


def test_an_expected_crash_is_clean(leak_test):
    test = leak_test(STILL, boot(ending(traced_pass(), *[139] * 6)), quick=True)
    test.expected = [139]
    assert test.test_safely("true").status == CLEAN
    test.expected = [0]
    result = test.test_safely("true")
    assert (result.status, result.text.splitlines()[3]) == (UNKNOWN, "    the command was killed by SIGSEGV (status 139) in 6 of 6 runs, not with 0 (EXPECT)")


# The --together option, and failures of the script itself.


@pytest.mark.parametrize("untraced, traced", [
    (OSError(7, "Argument list too long"), boot(traced_pass())), (STILL, OSError(7, "Argument list too long")), (STILL, boot(traced_pass(), traced_pass())),
], ids=["untraced", "traced", "judging"])
def test_what_fails_together_is_tested_alone(leak_test, script, monkeypatch, untraced, traced):
    test = leak_test(untraced, traced)
    monkeypatch.setattr(test, "test", lambda command: script.Result(command, CLEAN, "alone"))

    def broken(*_):
        raise KeyError("of its own")
    monkeypatch.setattr(test, "judge", broken)
    assert [(result.command, result.text) for result in test.test_together(["a", "b"])] == [("a", "alone"), ("b", "alone")]


def test_what_is_clean_together_is_not_tested_alone(leak_test):
    test = leak_test(STILL, boot(traced_pass(), traced_pass()))
    assert [result.status for result in test.test_together(["a", "b"])] == [CLEAN, CLEAN]
    assert len(test.guests.traced_boots) == 1


@pytest.mark.parametrize("together", (["--together"], []), ids=["together", "alone"])
def test_a_list_longer_than_an_argument(tmp_path, together):
    """The list has a command that is too long for an argument of scripts/guest. The verdict on this
    command is unknown, with --together and without."""
    commands = tmp_path / "commands"
    commands.write_text("true " + "x" * 131000 + "\n")
    result = leaktest(commands, *together, "--list")
    assert result.status == 2, result
    assert result.stdout.startswith("UNKNOWN\n0 clean, 0 leak, 1 unknown\n")
    assert "the command is longer than an argument may be" in result.stdout


@pytest.mark.parametrize("error", [KeyError("of its own"), RecursionError(), Failure("why")], ids=["KeyError", "RecursionError", "Failure"])
@pytest.mark.parametrize("where", ("run", "write"))
def test_any_failure_of_its_own_is_2(script, monkeypatch, tmp_path, capsys, where, error):
    def broken(*_):
        raise error
    monkeypatch.setattr(script, "run", lambda *_: ([script.Result("true", LEAKED, "leak\n")], "leak\n"))
    monkeypatch.setattr(script, where, broken)
    monkeypatch.setattr(script.sys, "argv", ["leaktest", "--report", str(tmp_path / "report"), "true"])
    assert script.main() == UNKNOWN
    said, why = capsys.readouterr(), ' '.join(str(error).split()) or type(error).__name__
    assert said.err == f"leaktest: {why}\n"
    assert said.out == f"UNKNOWN\nleak test of: true\nwhat is not known:\n    {why}\n"


def test_reports_are_utf_8_in_any_locale(tmp_path):
    program = f"""
import checkout, pathlib
script = checkout.script("leaktest")
script.write(pathlib.Path({str(tmp_path / "report")!r}), b"", [script.Result("true \\u00fc", 0, "")])
"""
    run = subprocess.run(["python3", "-X", "utf8=0", "-c", program], env={"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PATH": os.environ["PATH"], "PYTHONPATH": checkout.__file__.rpartition("/")[0]},
                         capture_output=True, check=False)
    assert run.returncode == 0, run
    assert "true ü".encode() in (tmp_path / "report.xml").read_bytes()
