"""A work tree in which commits are built and tested one after the other (commit_search.py). They share one build folder, so that each builds only
what the commit changes."""
import contextlib
import fcntl
import json
import os
import shutil
import subprocess

from stele import build, children

CLEAN, LEAK, UNKNOWN = "clean", "leak", "unknown"


class Failure(Exception):
    """The search cannot begin or go on. The text says why."""


class Skip(Exception):
    """A commit cannot be tested. The text says why."""


class Tree:
    """A context manager: a work tree of the repository `top` in the folder `place`, which must be no other run's. Its commits share one build folder."""

    def __init__(self, top, place):
        self.top, self.place, self.folder = top, place, place / "tree"

    def __enter__(self):
        self.place.mkdir(parents=True, exist_ok=True)
        self.lock = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another leakbisect of this checkout runs, in {self.folder}") from None
        self._remove()
        self._git(self.top, "worktree", "add", "--quiet", "--detach", self.folder, "HEAD")
        return self

    def __exit__(self, *_):
        children.wait_for_all()
        self._remove()
        os.close(self.lock)

    def git(self, *words):
        """Runs git in the tree. Returns its output; raises Failure if it fails."""
        return self._git(self.folder, *words)

    def commit(self, name):
        """Returns the full name of a commit."""
        try:
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
        except Failure:
            raise Failure(f"{name} is no commit") from None

    def make(self, *words, output):
        """Runs make in the tree, its output to an open file. Returns the status."""
        environment = {name: value for name, value in build.environment().items() if name != "STELE_BUILD"}
        return children.run(["make", "-s", *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment).returncode

    def _remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(Failure):
            self._git(self.top, "worktree", "prune")

    @staticmethod
    def _git(folder, *words):
        done = children.run(["git", "-C", folder, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {"LC_ALL": "C"})
        text = done.stdout.decode(errors="replace")
        if done.returncode != 0 and "'skip'ped commits left" not in text:
            raise Failure(text.strip().splitlines()[0] if text.strip() else f"git {words[0]}: status {done.returncode}")
        return text


class Tests:
    """Leak tests of the commit that is checked out in `tree`. `variables`: further words for make, NAME=VALUE. `leak`: only a leak counts that
    has_word() this word. `folder` gets the output and the last report of each commit."""

    def __init__(self, tree, command, variables, leak, folder):
        self.tree, self.leak, self.folder = tree, leak, folder
        self.words = ["leaktest", f"CMD={command}", "LOST_AT=no", "KEPT_BY=no", *variables]
        self.variables = variables
        self.built = None
        shutil.rmtree(folder, ignore_errors=True)

    def test(self, name):
        """Tests the commit `name` once. Returns CLEAN, LEAK or UNKNOWN; raises Skip if it does not build."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{name[:12]}.log"
        with open(log, "ab") as output:
            if self.built != name and self.tree.make("all", *self.variables, output=output) != 0:
                raise Skip(f"it does not build ({log})")
            self.built = name
            report = self.tree.folder / "build/leaktest/report.json"
            report.unlink(missing_ok=True)
            status = self.tree.make(*self.words, output=output)
        if status == 0:
            return CLEAN
        findings = findings_of(report)
        if status != 1 or (self.leak and findings is None):
            return UNKNOWN
        if self.leak and not any(has_word(finding, self.leak) for finding in findings):
            return CLEAN
        for suffix in (".json", ".txt", ".html"):
            with contextlib.suppress(OSError):
                shutil.copy(report.with_suffix(suffix), self.folder / f"{name[:12]}{suffix}")
        return LEAK


def findings_of(report):
    """Returns the findings of a report.json, those with a stack first. None if it cannot be read."""
    try:
        commands = json.loads(report.read_text())["commands"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    every = [finding for command in commands for kind in ("leaks", "unreachable", "growths") for finding in command.get(kind, ())]
    return sorted(every, key=lambda finding: not finding.get("stack"))


def stacks_of(finding):
    """Returns [(functions, lines)] of a finding: the stack that allocated, then those that took references which were not put."""
    return [(one.get("stack") or [], one.get("lines") or []) for one in (finding, *finding.get("alive", ()), *finding.get("kept_by", ()))]


def has_word(finding, word):
    """True if `word` is the finding's cache, or a function of one of its stacks."""
    return word == finding.get("name") or any(word in functions for functions, _ in stacks_of(finding))
