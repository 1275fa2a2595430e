"""scripts/report history: keeps the outstanding objects of leak tests and dumps at each commit, in an SQLite file.

    scripts/report history                              lists the runs: leak tests, and added dumps
    scripts/report history [--command TEXT] STACK       shows the bytes of matching stacks in each run, and the first run that has the stack
    scripts/report history --add FILE --command TEXT    adds a run: FILE is anything that scripts/report reads

STACK is a function, or several as in folded stacks, outermost first: sys_open;Tmp::create. It
matches any part of a stack. `make leaktest` adds its runs. The history is the SQLite file
build/history.db, or the one that --database names.

A run of a leak test has the accused objects; an added dump has all outstanding objects. Stacks of
two commits are equal if they have the same functions in the same order and the same cache. Lines and
build ids do not matter, because they differ between any two builds. If a run does not have a stack that
another run of the same command has, the stack is shown with 0 bytes in this run, or with "?" if the
verdict of the run is unknown.

Each run is added in one transaction, which waits for other transactions. So runs that end at the same
time are all recorded, and a run that is killed adds nothing. The history has an application id and a
version of the schema; a file without these is not changed.
"""
import argparse
import contextlib
import hashlib
import json
import pathlib
import sqlite3
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass

from stele.build import build_folder
from stele.report.profile import Amount, ReportError, comparable

ROOT = pathlib.Path(__file__).resolve().parents[3]
APPLICATION = 0x53746C65  # "Stle"
VERSION = 1
UNKNOWN = "unknown"  # an unknown verdict of a leak test
PATIENCE = 30  # seconds that another transaction may take
SCHEMA = """
CREATE TABLE run (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, revision TEXT NOT NULL, changed INTEGER NOT NULL, kind TEXT NOT NULL,
                  command TEXT NOT NULL, verdict TEXT NOT NULL, build_id TEXT NOT NULL) STRICT;
CREATE TABLE stack (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, source TEXT NOT NULL, functions TEXT NOT NULL) STRICT;
CREATE TABLE amount (run INTEGER NOT NULL REFERENCES run, stack INTEGER NOT NULL REFERENCES stack, objects INTEGER NOT NULL,
                     bytes INTEGER NOT NULL, PRIMARY KEY (stack, run)) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Run:
    id: int
    time: int  # seconds since 1970
    revision: str  # the commit; "" outside of a checkout
    changed: bool  # True if files of the checkout differed from the commit
    kind: str  # leaktest, dump
    command: str
    verdict: str  # verdict of a leak test: clean, leak, unknown

    @property
    def label(self):
        return f"{self.revision[:12] or 'no commit'}{'+' if self.changed else ''}"


def default_path():
    return build_folder() / "history.db"


@contextlib.contextmanager
def opened(path, create=False):
    """A context manager that yields a connection to the file. The connection has an open transaction, which is committed if the caller raises
    nothing. Raises ReportError, whose message has the file's name."""
    path = pathlib.Path(path)
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            raise ReportError(f"{path}: no such file; `make leaktest` begins a history")
        address = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        with contextlib.closing(sqlite3.connect(address, timeout=PATIENCE, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN IMMEDIATE" if create else "BEGIN")
            _check(connection, path, create)
            yield connection
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:  # the file is locked, the disk is full, …
        raise ReportError(f"{path}: {error}") from error
    except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError, TypeError) as error:
        raise ReportError(f"{path}: not a history, or damaged: {error}") from error
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from error


def _check(connection, path, create):
    application, = connection.execute("PRAGMA application_id").fetchone()
    version, = connection.execute("PRAGMA user_version").fetchone()
    tables, = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if create and (application, version, tables) == (0, 0, 0):
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    elif application != APPLICATION:
        raise ReportError(f"{path}: an SQLite file, but no history")
    elif version != VERSION:
        raise ReportError(f"{path}: a history of version {version}, not {VERSION}")


def names_of(key):
    """Returns (source, functions). `functions` is a tuple of names, outermost first. Stacks with an equal result count as the same stack, also at
    different commits."""
    key = comparable(key)
    return key.source, tuple(printable(frame.function) for frame in reversed(key.frames + key.user_frames))


def printable(text):
    """Returns `text` with bytes that are not UTF-8 as escapes: SQLite's texts are UTF-8, but a command need not be."""
    return text.encode("utf-8", "backslashreplace").decode()


def record(profile, command, kind, verdict="", path=None, root=ROOT):
    """Adds a run with the outstanding objects in `profile`, at the commit of the checkout `root`.
    Raises ReportError."""
    amounts = defaultdict(Amount)
    for key, amount in profile.amounts.items():
        amounts[names_of(key)].add(amount)
    revision, changed = revision_of(root)
    with opened(path or default_path(), create=True) as connection:
        run = connection.execute("INSERT INTO run (time, revision, changed, kind, command, verdict, build_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
                                 (int(time.time()), revision, changed, kind, printable(command), verdict, profile.build_id)).lastrowid
        for (source, functions), amount in amounts.items():
            text = json.dumps(functions, ensure_ascii=False)
            digest = hashlib.sha256(json.dumps([source, functions]).encode()).digest()
            connection.execute("INSERT INTO stack (digest, source, functions) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                               (digest, printable(source), text))
            connection.execute("INSERT INTO amount SELECT ?, id, ?, ? FROM stack WHERE digest = ?",
                               (run, round(amount.objects), round(amount.bytes), digest))


def revision_of(root):
    """Returns (commit, True if files of the checkout differ from the commit); ("", False) if `root` is not a checkout."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return "", False


def runs_of(connection, command=""):
    """Returns the Runs whose command contains `command`, oldest first."""
    rows = connection.execute("SELECT id, time, revision, changed, kind, command, verdict FROM run WHERE instr(command, ?) OR ? = '' ORDER BY id",
                              (printable(command), command))
    return [Run(*row[:3], bool(row[3]), *row[4:]) for row in rows]


def stacks_of(connection, wanted):
    """Returns {number of a stack: (source, functions)} for the stacks whose functions, joined by ";", contain `wanted`. `functions` is a list of
    names, outermost first."""
    found = {}
    for number, source, functions in connection.execute("SELECT id, source, functions FROM stack ORDER BY id"):
        try:
            names = [str(name) for name in json.loads(functions)]
        except (ValueError, TypeError, RecursionError) as error:
            raise sqlite3.DatabaseError("the functions of a stack cannot be read") from error
        if wanted in ";".join(names):
            found[number] = source, names
    return found


def list_of_runs(connection, command):
    """Yields a line for each run, with its outstanding objects and the number of its stacks that no earlier run has."""
    sums = {run: facts for run, *facts in connection.execute("SELECT run, sum(bytes), sum(objects), count(*) FROM amount GROUP BY run")}
    first = dict(connection.execute("SELECT first, count(*) FROM (SELECT min(run) AS first FROM amount GROUP BY stack) GROUP BY first"))
    runs = runs_of(connection, command)
    if runs:
        yield f"{'date':16}  {'commit':13}  {'bytes':>10}  {'objects':>8}  {'stacks':>6}  {'new':>6}  {'':8}  command"
    for run in runs:
        size, objects, stacks = sums.get(run.id, (0, 0, 0))
        yield (f"{date(run.time)}  {run.label:13}  {size:>10}  {objects:>8}  {stacks:>6}  {first.get(run.id, 0):>6}  "
               f"{run.verdict or run.kind:8}  {in_line(run.command)}")


def over_commits(connection, command, wanted):
    """Yields lines about each stack, separately for each command whose runs include the stack: the first run of the command that has the stack, and
    the amounts in all runs of the command. The stack with the most bytes in the last run of its command comes first."""
    runs, stacks = runs_of(connection, command), stacks_of(connection, wanted)
    by_command = defaultdict(list)
    for run in runs:
        by_command[run.command].append(run)
    shown = []
    for number, (source, names) in stacks.items():
        amounts = {run: (size, objects) for run, size, objects in
                   connection.execute("SELECT run, bytes, objects FROM amount WHERE stack = ?", (number,))}
        for same in by_command.values():
            if any(run.id in amounts for run in same):
                last, _ = amounts.get(same[-1].id, (0, 0))
                shown.append((last, f"{source or 'unknown'}: {in_line(';'.join(names)) or 'the stack was not recorded'}", same, amounts))
    for _, title, same, amounts in sorted(shown, key=lambda one: -one[0]):
        yield title
        yield f"    {in_line(same[0].command)}"
        first = next(index for index, run in enumerate(same) if run.id in amounts)
        without = [run for run in same[:first] if run.verdict != UNKNOWN]
        yield (f"    first in {same[first].label}, {date(same[first].time)}; "
               + (f"not yet in {without[-1].label}, {date(without[-1].time)}" if without else "no earlier run to compare with"))
        for run in same:
            size, objects = amounts.get(run.id, ("?", "?") if run.verdict == UNKNOWN else (0, 0))
            yield f"        {date(run.time)}  {run.label:13}  {size:>10} bytes  {objects:>8} objects"
        yield ""


def date(seconds):
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:>16}"


def in_line(text):
    return "".join(character if character.isprintable() else "?" for character in text)


def main(words):
    parser = argparse.ArgumentParser(prog="report history", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="", metavar="TEXT", help="only runs whose command contains TEXT; with --add, the command")
    parser.add_argument("--add", metavar="FILE", help="record the outstanding objects of FILE")
    parser.add_argument("--database", type=pathlib.Path, default=default_path(), metavar="FILE", help="instead of build/history.db")
    parser.add_argument("stack", nargs="?", default="", metavar="STACK", help="a function, or several: outer;inner")
    options = parser.parse_args(words)
    if options.add:
        from stele.report import reading
        from stele.report.lookup import Lookup
        record(reading.read(options.add, Lookup(None, None)), options.command or options.add, "dump", path=options.database)
        return 0
    with opened(options.database) as connection:
        lines = list(over_commits(connection, options.command, options.stack) if options.stack else list_of_runs(connection, options.command))
    print("\n".join(lines or ["no such runs in " + str(options.database)]))
    return 0
