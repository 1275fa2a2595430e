"""Tests gdb on recorded runs: going back to any moment (scripts/replay, scripts/gdb --replay, tools/stele/debugger/replay.py)."""
import json
import re

import pytest

from debugged import gdb_on
from guest import tool

pytestmark = [pytest.mark.cpus(1), pytest.mark.icount]


def replay(folder, script):
    return tool("replay", "--no-build", "--keep", folder, script)


@pytest.fixture(name="run", scope="module")
def fixture_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    said = replay(folder, "leakdemo leak 2; exit 3")
    assert said.status == 3 and re.fullmatch(r"replay: \d+ instructions: make gdb REPLAY=\S+\n", said.stderr), said
    return folder


def moments(said):
    return [int(number) for number in re.findall(r"^moment (\d+)$", said, re.M)]


def test_gdb_goes_back_to_who_wrote_a_word(run):
    """The last close does not free what chan.state points to. The watchpoint finds the function that stored the pointer: in the same open, not in an
    earlier one."""
    said = gdb_on(("--replay", run), "break leaky_close", "reverse-continue", "print/x *&chan", "watch -l chan.state", "rc", "backtrace 2", "reverse-finish",
                  "x/i $pc", "reverse-next", "stepi", "reverse-stepi 2", "moment +2")
    (close,), (store,), (call,), (before,) = (moments(said[command]) for command in ("reverse-continue", "rc", "reverse-finish", "reverse-next"))
    assert "breakpoint 1: leaky_close" in said["reverse-continue"] and "watchpoint 2: chan.state" in said["rc"]
    assert close > store > call > before
    assert "leaky_open" in said["backtrace 2"], said["backtrace 2"]  # a constructor may be inlined there
    assert re.search(r"call\s.*<leaky_open", said["x/i $pc"]) and "debug.cc" in said["reverse-next"]
    assert moments(said["reverse-stepi 2"]) == [before - 1] and moments(said["moment +2"]) == [before + 1]


@pytest.mark.long
def test_stops_back_are_those_of_the_run(run):
    """The script closes the device twice. Would find a way back that leaves a stop out, or goes to the first one at once."""
    forward = gdb_on(("--replay", run, "--at", "20000000"), "break leaky_close", "continue", "moment", "python gdb.execute('continue')", "python gdb.execute('moment')")
    closes = [int(re.search(r"moment (\d+) of", forward[command])[1]) for command in ("moment", "python gdb.execute('moment')")]
    back = gdb_on(("--replay", run), "break leaky_close", "reverse-continue", "rc")
    assert closes[0] < closes[1] and [moments(back[command]) for command in ("rc", "reverse-continue")] == [[moment] for moment in closes]


@pytest.mark.long
def test_steps_back_are_those_of_the_lines(run):
    """Would find a step back that leaves a line out, or stops in the middle of one."""
    said = gdb_on(("--replay", run), "break leaky_open", "reverse-continue", "moment", "next", "reverse-step", "rs")
    (at_entry,) = moments(said["reverse-continue"])
    assert said["moment"].startswith(f"moment {at_entry} of ")
    assert "leaky_open" in said["reverse-step"] and moments(said["reverse-step"]) == [at_entry]
    assert moments(said["rs"])[0] < at_entry and "return leaky_open(chan);" in said["rs"]


def test_what_cannot_be_done_is_said(run):
    wrong = {"moment 1000000000000": "the run has the moments 0 to", "moment x": "moment [N | +N | -N]",
             "reverse-continue": "no breakpoint and no watchpoint is enabled", "rc": "breakpoint 1 is temporary"}
    words = [word for command in wrong for word in ("-ex", "tbreak leaky_open" if command == "rc" else "moment", "-ex", command)]
    said = tool("gdb", "--replay", run, "--at", "20000000", "--", "-batch", *words)
    assert [why in line for why, line in zip(wrong.values(), said.stderr.splitlines(), strict=True)] == [True] * len(wrong), said.stderr
    assert said.stdout.count("moment 20000000 of") == 3


def test_a_run_of_another_image_is_refused(run, tmp_path):
    """A replay of a run with another kernel would show moments that never were."""
    for name in ("recording", "run.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    kept = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(kept | {"image": "0" * 64}))
    for folder, why in ((tmp_path, "are not those of the recorded run"), (tmp_path / "nothing", "no recorded run")):
        said = tool("gdb", "--replay", folder, "--", "-batch")
        assert (said.status, said.stdout) == (2, "") and why in said.stderr and said.stderr.count("\n") == 1
