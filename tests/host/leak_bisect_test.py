"""scripts/leakbisect, with a small repository whose `make leaktest` reports leaks that its commits say, and the odds behind it."""
import contextlib
import os
import random
import re
import select
import shutil
import signal
import subprocess

import pytest

from guest import ROOT
from stele.commit_search import search
from stele.commit_odds import Odds
from stele.commit_tree import CLEAN, LEAK, Failure

# The file `leak` of a commit: it leaks in each test (`always`), in none (`never`), does not end (`slow`), or does not build (`broken`).
MAKEFILE = "HUNTS := leaktest\nBASE ?= build\nall: ; @! grep -q broken leak\ninclude hunts.mk\n"
LEAKTEST = """#!/bin/sh
mkdir -p build/leaktest; echo "$@"
echo '{"commands": [{"leaks": [{"name": "made", "bytes": 64, "objects": 1, "stack": ["make_it", "caller"], "lines": ["made.c:3", "other.c:9"],
 "kept_by": [{"references": 2, "stack": ["take_it"], "lines": ["take.c:2"]}]}]}]}' > build/leaktest/report.json
if grep -q slow leak; then echo > "$BEGUN"; read line < "$NEVER"; fi
! grep -q always leak
"""
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "A. Author", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "c", "GIT_COMMITTER_EMAIL": "c@c"}


class Repository:
    def __init__(self, folder):
        self.top = folder / "a tree"
        (self.top / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/leakbisect", self.top / "scripts")
        (self.top / "tools").symlink_to(ROOT / "tools")
        (self.top / "Makefile").write_text(MAKEFILE)
        (self.top / "hunts.mk").write_bytes((ROOT / "hunts.mk").read_bytes())
        (self.top / "scripts/leaktest").write_text(LEAKTEST)
        (self.top / "scripts/leaktest").chmod(0o755)
        self.write_source()
        self.build = folder / "build"
        self.environment = os.environ | QUIET | {"XDG_CACHE_HOME": str(folder / "cache"), "STELE_BUILD": str(self.build)}
        self.git("init", "-q")
        self.git("add", ".")

    def write_source(self, more=""):
        """Writes the source of the functions in the leak's stacks, and of one that is in none. Each calls `more` too."""
        for file, functions in (("made.c", ("make_it", "other")), ("take.c", ("take_it",))):
            bodies = (f"void {function}(void) {{\n  {function}_now();\n{more}}}\n" for function in functions)
            (self.top / file).write_text("\n" + ("\n" * 20).join(bodies))

    def git(self, *words):
        return subprocess.run(["git", "-C", self.top, *words], check=True, capture_output=True, text=True, env=self.environment).stdout.strip()

    def commit(self, leak, subject="-"):
        (self.top / "leak").write_text(leak + "\n")
        self.git("add", "leak")
        self.git("commit", "-q", "-a", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def run(self, *words):
        return subprocess.run([self.top / "scripts/leakbisect", *words], cwd=self.top, capture_output=True, text=True, check=False, env=self.environment)


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


def test_the_commit_and_its_hunk(repository):
    good = repository.commit("never")
    for _ in range(3):
        repository.commit("never")
    repository.write_source("  more();\n")
    bad = repository.commit("always", "makes more")
    for _ in range(2):
        repository.commit("always")
    done = repository.run("--leak", "take_it", good, "HEAD", "a 'command'", "QUICK=1")
    assert done.returncode == 0, done
    sure = re.search(r"the first bad commit, ([\d.]+) % sure\n+commit (\w+)\nAuthor: A. Author .*\n.*\n+    makes more\n", done.stdout)
    assert sure and float(sure[1]) >= 99 and sure[2] == bad, done
    about = done.stdout[done.stdout.index("the leak: "):]
    assert about.startswith("the leak: made: 64 bytes in 1 objects\n  from stack\n    make_it  made.c:3\n    caller   other.c:9\n"
                            "  from stack\n    take_it  take.c:2\n"), done
    hunks = about.partition("\nchanges in these functions\n")[2]
    assert re.findall(r"^--- (.*)\n@@", hunks, re.MULTILINE) == ["made.c", "take.c"] and hunks.count("+  more();") == 2, done
    assert "other_now" not in hunks, "another function"
    folder = repository.build / "leakbisect"
    assert "make_it" in (folder / f"{bad[:12]}.json").read_text()
    # The command and the variables have reached each leak test.
    assert all(re.search("--quick.* a 'command'$", path.read_text(), re.MULTILINE) for path in folder.glob("*.log"))
    # Nothing is left behind.
    assert repository.git("worktree", "list").count("\n") == 0 and not list((repository.top.parent / "cache").rglob("tree"))


def test_commits_that_do_not_build(repository):
    good = repository.commit("never")
    repository.commit("broken", "one")
    repository.commit("broken", "two")
    repository.commit("always", "three")
    done = repository.run(good, "HEAD", "c")
    assert done.returncode == 2, done
    assert "is one of these 3: the others were skipped" in done.stdout and done.stdout.count("it does not build") == 2, done
    assert re.findall(r"A. Author: (\w+)", done.stdout) and set(re.findall(r"A. Author: (\w+)", done.stdout)) == {"one", "two", "three"}, done


def test_another_leak_does_not_count(repository):
    good = repository.commit("always")
    repository.commit("always")
    done = repository.run("--leak", "other_function", "--most", "3", good, "HEAD", "c")
    assert done.returncode == 2 and "the bad commit" in done.stderr and "clean in 3 tests" in done.stderr, done


@pytest.mark.parametrize("words, line", [
    (("nothing", "HEAD", "c"), "leakbisect: nothing is no commit"),
    (("HEAD", "HEAD", "c"), "leakbisect: the bad commit is not younger than the good one"),
    (("HEAD~1", "HEAD", "c"), "leakbisect: the good commit .*: leaks in 1 of 1 tests"),
    (("HEAD", "HEAD~1", "c"), "leakbisect: the bad commit is not younger"),
    (("HEAD~1", "HEAD", " "), "two commits and a command"),
    (("HEAD~1", "HEAD", "c", "quick"), "quick is not NAME=VALUE"),
])
def test_wrong_words(repository, words, line):
    repository.commit("always")
    repository.commit("always")
    done = repository.run(*words)
    assert done.returncode == 2 and re.search(line, done.stderr) and "Traceback" not in done.stderr, done


def test_an_interrupt_leaves_nothing(repository, tmp_path):
    good = repository.commit("never")
    repository.commit("slow")
    fifos = {"BEGUN": tmp_path / "begun", "NEVER": tmp_path / "never"}
    for path in fifos.values():
        os.mkfifo(path)
    begun = os.open(fifos["BEGUN"], os.O_RDWR)
    with subprocess.Popen([repository.top / "scripts/leakbisect", good, "HEAD", "c"], stderr=subprocess.PIPE, text=True,
                          env=repository.environment | {name: str(path) for name, path in fifos.items()}) as run:
        ready, _, _ = select.select([begun, os.pidfd_open(run.pid)], [], [])
        assert ready == [begun], run.stderr.read()
        run.send_signal(signal.SIGINT)
        lines = [line for line in run.stderr.read().splitlines() if ": tests " not in line]
    assert run.returncode == 130 and lines == ["leakbisect: interrupted"]
    assert not list((repository.top.parent / "cache").rglob("tree"))


class Line:
    """A history without branches, of commits that are named by numbers."""

    def __init__(self, commits):
        self.commits, self.here, self.good, self.bad = commits, 0, 0, 0

    def commit(self, name):
        return name

    def git(self, *words):
        if words[0] == "rev-list":
            return str(self.commits)
        if words[0] == "rev-parse":
            return str(self.here)
        if words[:2] == ("bisect", "start"):
            self.bad, self.good = int(words[2]), int(words[3])
        elif words[0] == "bisect":
            self.good, self.bad = (self.good, self.here) if words[1] == "bad" else (self.here, self.bad)
        self.here = (self.good + self.bad) // 2
        return f"{self.bad:040} is the first bad commit" if self.bad - self.good == 1 else ""


class Silent:
    def phase(self, *_):
        pass

    def step(self):
        pass


def test_a_leak_of_one_in_ten_tests_is_found_99_times_of_100():
    """Would find too few tests of a commit: with half of them, 25 of the 400 searches are wrong."""
    chance = random.Random(1)
    right = 0
    for _ in range(400):
        first = chance.randrange(1, 41)
        with contextlib.suppress(Failure):  # the bad commit was clean in all tests
            found = search(Line(40), "0", "40", lambda name, first=first: LEAK if int(name) >= first and chance.random() < 0.1 else CLEAN, Silent())
            right += int(found.commits[0]) == first
    assert right >= 394


def test_odds():
    odds = Odds()
    with pytest.raises(Failure):
        search(Line(4), "0", "4", lambda _: CLEAN, Silent())
    odds.add(1, 1)
    # The share has the density 2p, so the chance of two clean tests is the integral of 2p(1 - p)².
    assert odds.silence(2) == pytest.approx(1 / 6)
    assert odds.needed(1 / 6 + 1e-9) == 2 and odds.needed(0.99) == 1
