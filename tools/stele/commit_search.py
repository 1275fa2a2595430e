"""Looks for the commit that has brought a leak: git bisect, with as many leak tests of each commit as its answer needs (commit_odds.py).

    with Tree(top, place) as tree:
        tests = Tests(tree, command, …)
        outcome = search(tree, good, bad, tests.test, shown)
"""
import dataclasses
import math
import re

from stele.commit_odds import Odds
from stele.commit_tree import CLEAN, LEAK, UNKNOWN, Failure, Skip

RIGHT = 0.99  # how sure the result is to be, if the leak shows as often as in the tests
FIRST_LEAKS = 5  # the bad commit is tested until it has leaked so often
MOST_UNKNOWN = 3  # tests of a commit without a verdict, before it is skipped


@dataclasses.dataclass
class Commit:
    """What the tests of a commit have shown. `skipped`: why it could not be tested, or None."""
    name: str
    leaks: int = 0
    clean: int = 0
    skipped: str = None

    def __str__(self):
        if self.skipped:
            return self.skipped
        return f"leaks in {self.leaks} of {self.leaks + self.clean} tests" if self.leaks else f"clean in {self.clean} tests"


@dataclasses.dataclass
class Outcome:
    """`commits`: the first bad commit, or those that it may be if the others were skipped. `tested`: {name: Commit}. `sure`: a probability."""
    commits: list
    tested: dict
    sure: float


def search(tree, good, bad, test, shown, most=60):
    """Returns the Outcome. `test(name)`: as Tests.test. `shown`: a Progress. `most`: tests of the bad commit."""
    good, bad = tree.commit(good), tree.commit(bad)
    count = int(tree.git("rev-list", "--count", f"{good}..{bad}"))
    if count == 0:
        raise Failure("the bad commit is not younger than the good one")
    state = _Search(test, shown, steps=max(1, math.ceil(math.log2(count))))
    tree.git("checkout", "--quiet", "--detach", bad)
    state.first(bad, most)
    tree.git("checkout", "--quiet", "--detach", good)
    if state.answer(good, "the good commit") != "good":
        raise Failure(f"the good commit {good[:12]}: {state.tested[good]}")
    said = tree.git("bisect", "start", bad, good)
    while not (found := _end_of(said)):
        name = tree.git("rev-parse", "HEAD").strip()
        said = tree.git("bisect", state.answer(name, _left(said)))
    return Outcome(found, state.tested, state.sure())


class _Search:
    def __init__(self, test, shown, steps):
        self.test, self.shown, self.odds, self.tested = test, shown, Odds(), {}
        self.chance = (1 - RIGHT) / steps  # of an error, for each clean commit

    def first(self, name, most):
        """Tests the bad commit, which tells how often the leak shows."""
        commit = self._begin(name, "the bad commit", FIRST_LEAKS)
        while not commit.skipped and commit.leaks < FIRST_LEAKS and commit.leaks + commit.clean < most:
            if self._once(commit) == LEAK:
                self.shown.step()
        if commit.leaks == 0:
            raise Failure(f"the bad commit {name[:12]}: {commit}")
        self.odds.add(commit.leaks, commit.leaks + commit.clean)

    def answer(self, name, what):
        """Tests a commit. Returns git bisect's word for it."""
        needed = self.odds.needed(self.chance)
        commit = self._begin(name, what, needed)
        while not commit.skipped and commit.leaks == 0 and commit.clean < needed:
            self._once(commit)
            self.shown.step()
        if commit.leaks > 0:
            self.odds.add(commit.leaks, commit.leaks + commit.clean)
        return "skip" if commit.skipped else "bad" if commit.leaks else "good"

    def sure(self):
        """Returns the probability that no clean commit has the leak."""
        return math.prod(1 - self.odds.silence(commit.clean) for commit in self.tested.values() if not commit.leaks and not commit.skipped)

    def _begin(self, name, what, tests):
        self.shown.phase(f"{what}, {name[:12]}: tests", tests)
        self.tested[name] = Commit(name)
        return self.tested[name]

    def _once(self, commit):
        try:
            for _ in range(MOST_UNKNOWN):
                if (verdict := self.test(commit.name)) != UNKNOWN:
                    break
            else:
                raise Skip(f"{MOST_UNKNOWN} tests without a verdict")
        except Skip as why:
            commit.skipped = str(why)
            return UNKNOWN
        commit.leaks += verdict == LEAK
        commit.clean += verdict == CLEAN
        return verdict


def _end_of(said):
    """Returns the commits that git bisect names at its end, or []."""
    if found := re.search("^([0-9a-f]{40}) is the first bad commit$", said, re.MULTILINE):
        return [found[1]]
    if "'skip'ped commits left" in said:
        return re.findall("^([0-9a-f]{40})$", said, re.MULTILINE)
    return []


def _left(said):
    found = re.search(r"^Bisecting: (\d+) revisions? left", said, re.MULTILINE)
    return f"{found[1]} commits left" if found else "a merge base"
