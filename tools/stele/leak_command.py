"""The part of the leak test that judges the command itself: a command that does not do its work leaks nothing, but it is not clean.

Each run of the command has an exit status and a time. Without a leak, the verdict is unknown if

- the command was not found (status 127), could not be executed (126), or was killed by a signal (over 128);
- a run has ended with another status than the first run;
- later runs have taken much longer or much shorter than the first ones: perhaps only the first runs do the work.

With `expected` statuses (EXPECT=), a run must end with one of these statuses, whatever they are.
"""
import signal
import statistics
from collections import Counter
from dataclasses import dataclass

NOT_EXECUTED, NOT_FOUND, KILLED = 126, 127, 128
FIRST_RUNS = 3  # the warm-up run, and the runs after it
# A difference of times counts if it is FACTOR or more, and SECONDS or more. A run alone counts only if the difference is much larger. The guest's
# clock is that of the host: other load of the host makes single runs slow, and the first run translates the code of its programs (QEMU's TCG).
FACTOR, SECONDS = 5, 1.0
FACTOR_ALONE, SECONDS_ALONE = 10, 10.0


@dataclass
class Run:
    """A run of the command."""

    status: int
    seconds: float  # of the guest


def expected_statuses(text):
    """Parses the value of EXPECT: exit statuses, separated by blanks or commas. Returns a list. Raises ValueError."""
    statuses = [int(word) for word in text.replace(",", " ").split()]
    if not statuses or not all(0 <= status <= 255 for status in statuses):
        raise ValueError(text)
    return statuses


def statuses_of(runs):
    """Returns the exit statuses of the runs as text: "exit status: 0", or "exit statuses: 0 (1 run), 1 (5 runs)"."""
    counts = Counter(run.status for run in runs)
    if len(counts) <= 1:
        return f"exit status: {next(iter(counts), 'not known')}"
    return "exit statuses: " + ", ".join(f"{status} ({number(count)})" for status, count in counts.items())


def number(count):
    return f"{count} run{'s' * (count != 1)}"


def doubts_about_command(passes, expected=()):
    """Returns the reasons, as text, why the command may not have done its work. `passes`: the Runs of each pass, the warm-up run first."""
    runs = [run for one in passes for run in one]
    return [*_about_statuses(runs, expected), *(doubt for one in passes for doubt in _about_times(one)[:1])]


def _about_statuses(runs, expected):
    if not runs:
        return []
    first, counts = runs[0].status, Counter(run.status for run in runs)
    if expected:
        wanted = " or ".join(map(str, expected))
        return [f"the command {how(status)} in {counts[status]} of {number(len(runs))}, not with {wanted} (EXPECT)"
                for status in counts if status not in expected]
    doubts = [f"the command {how(first)}"] if first in (NOT_EXECUTED, NOT_FOUND) or first > KILLED else []
    both_end = "ended " if first < NOT_EXECUTED else ""
    return doubts + [f"the command {how(status)} in {counts[status]} of {number(len(runs))}, but "
                     f"{how(first).removeprefix(both_end if status < NOT_EXECUTED else '')} in the first" for status in counts if status != first]


def how(status):
    """Returns words for an exit status of the shell: "was not found (status 127)"."""
    if status == NOT_FOUND:
        return "was not found (status 127)"
    if status == NOT_EXECUTED:
        return "could not be executed (status 126)"
    if status > KILLED:
        try:
            return f"was killed by {signal.Signals(status - KILLED).name} (status {status})"
        except ValueError:
            return f"was killed by signal {status - KILLED} (status {status})"
    return f"ended with status {status}"


def _about_times(runs):
    times = [run.seconds for run in runs]
    first, later = times[:FIRST_RUNS], times[FIRST_RUNS:]
    if not later:
        return []
    usual, rest = statistics.median(later), statistics.median(times[1:])
    doubts = []
    if differ(usual, max(first), FACTOR, SECONDS):
        doubts.append(f"the later runs of the command took {usual:.1f} s, but the first ones at most {max(first):.1f} s")
    if differ(times[0], rest, FACTOR, SECONDS):
        doubts.append(f"the first run of the command took {times[0]:.1f} s, but the later ones {rest:.1f} s")
    longest = max(later)
    if differ(longest, max(first), FACTOR_ALONE, SECONDS_ALONE):
        doubts.append(f"a run of the command took {longest:.1f} s, but the first ones at most {max(first):.1f} s")
    return doubts


def differ(longer, shorter, factor, seconds):
    return longer >= shorter * factor and longer - shorter >= seconds
