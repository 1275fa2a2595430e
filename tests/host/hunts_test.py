"""Tests the exit statuses of the hunts for bugs in hunts.mk (make leaktest, make stress, and so on).
In a temporary folder, a fake scripts/leaktest executes the command given to it and ends with the
exit status of this command."""
import os
import subprocess

import pytest

from guest import ROOT
from stele.build import environment

CAT = """#!/bin/sh
[ "$BETWEEN" ] && MAKEFLAGS= MAKELEVEL= BETWEEN= make -s leaktest CMD="$BETWEEN" > /dev/null
exec /bin/cat "$@"
"""


@pytest.fixture
def make(tmp_path):
    """Returns a function that runs make in the temporary folder. `between`: a command for a second
    `make leaktest`. The second make starts when the hunt of the first make has ended. When the
    second make has ended, the first make reads its own verdict."""
    for folder in ("scripts", "bin"):
        (tmp_path / folder).mkdir()
    (tmp_path / "Makefile").write_text("HUNTS := leaktest leaksweep leakfuzz stress\nBASE ?= build\nall:\n\t@echo built >&2\ninclude hunts.mk\n")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "hunts.mk").write_bytes((ROOT / "hunts.mk").read_bytes())
    for path, text in (("scripts/leaktest", '#!/bin/sh\nfor last; do :; done\neval "$last"\n'), ("bin/cat", CAT)):
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)

    def run(*arguments, between=""):
        return subprocess.run(["make", "-s", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
                              env=environment() | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "BETWEEN": between})
    run.folder = tmp_path
    return run


@pytest.mark.parametrize("status, verdict", [(0, 0), (1, 1), (2, 2), (130, 2)])
def test_a_verdict_is_the_status_of_make(make, status, verdict):
    run = make("leaktest", f"CMD=exit {status}", "VARIANT=debug")
    assert (run.returncode, run.stderr.startswith("built\n")) == (verdict, True), run
    assert os.listdir(make.folder / "build/leaktest") == []


@pytest.mark.parametrize("status, other", [(1, 0), (0, 1), (2, 0)])
def test_hunts_at_once_have_verdicts_of_their_own(make, status, other):
    assert make("leaktest", f"CMD=exit {status}", between=f"exit {other}").returncode == status


@pytest.mark.parametrize("goals", [("all", "leaktest"), ("leaktest", "all"), ("leaktest", "stress"), ("leaktest-run", "leaktest")], ids=" ".join)
def test_a_hunt_goes_alone(make, goals):
    run = make(*goals, "CMD=exit 0")
    assert (run.returncode, run.stdout) == (2, "")
    assert "must be the only goal" in run.stderr


def test_a_report_of_its_own(make):
    assert make("leaktest", "CMD=exit 0", "REPORT=/tmp/a b").returncode == 0
    (make.folder / "scripts/leaktest").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    assert "<--report></tmp/a b>" in make("leaktest", "CMD=true", "REPORT=/tmp/a b").stdout


def test_other_goals_are_built(make):
    run = make("all")
    assert (run.returncode, run.stderr) == (0, "built\n")
