"""Tests scripts/report history, which shows the commit and the outstanding objects of each recorded
run."""
import random
import sqlite3
import subprocess
import sys

import pytest

import profiles
from guest import ROOT
from stele.report import command, history, pprof
from stele.report.profile import Amount, Frame, Key, Profile, ReportError


@pytest.fixture
def checkout(tmp_path):
    """Makes a git checkout. Returns a function that adds a commit to the checkout and gives the hash
    of the commit. The function's attribute `folder` is the path of the checkout."""
    folder = tmp_path / "checkout"

    def git(*words):
        return subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True,
                              text=True).stdout.strip()

    def commit():
        (folder / "file").write_text((folder / "file").read_text() + "x")
        git("commit", "-qam", "next")
        return git("rev-parse", "HEAD")

    folder.mkdir()
    git("init", "-q")
    (folder / "file").write_text("")
    git("add", "file")
    commit.folder = folder
    return commit


@pytest.fixture
def database(tmp_path):
    return tmp_path / "history.db"


def leak(size, line=12, build="ab" * 20, function="Tmp::create"):
    made = Profile(build_id=build)
    if size:
        frames = (Frame(function, "kern/tmp.cc", line, False, "kernel", 0x1000 + line, build), Frame("sys_open", "kern/sys.cc", 2 * line))
        made.add(Key("kmalloc_32", frames, (), f"pid {line} sh", line), Amount(size // 32, size))
    return made


def shown(capfd, *words, database):
    assert command.main(["history", "--database", str(database), *words]) == 0
    return capfd.readouterr().out


def failed(capfd, *words, database):
    assert command.main(["history", "--database", str(database), *words]) == 2
    out, err = capfd.readouterr()
    assert not out and err.startswith(f"report: {database}: ") and err.count("\n") == 1, err
    return err


def test_stack_over_commits(checkout, database, capfd):
    commits = []
    for number, (size, verdict) in enumerate(((0, "clean"), (0, "unknown"), (96, "leak"), (320, "leak"), (0, "unknown"), (0, "clean"))):
        commits.append(checkout())
        history.record(leak(size, 10 + number, f"{number:040x}"), "cat x", "leaktest", verdict, database, checkout.folder)
    history.record(leak(64, function="other"), "ls", "leaktest", "leak", database, checkout.folder)
    for wanted in ("Tmp::create", "sys_open;Tmp::create", "sys_op"):
        lines = shown(capfd, "--command", "cat", wanted, database=database).splitlines()
        assert lines[:2] == ["kmalloc_32: sys_open;Tmp::create", "    cat x"]
        assert lines[2].startswith(f"    first in {commits[2][:12]}, ") and f"not yet in {commits[0][:12]}, " in lines[2]
        assert [(line.split()[2], line.split()[3]) for line in lines[3:] if line] == [
            (commit[:12], size) for commit, size in zip(commits, ("0", "?", "96", "320", "?", "0"))]
    assert "no such runs" in shown(capfd, "--command", "cat", "Tmp::create;sys_open", database=database)
    assert "no such runs" in shown(capfd, "--command", "cat", "other", database=database)
    assert "no earlier run to compare with" in shown(capfd, "other", database=database)


def test_list_of_runs(checkout, database, capfd):
    commit = checkout()
    history.record(leak(96), "cat x", "leaktest", "leak", database, checkout.folder)
    (checkout.folder / "file").write_text("changed")
    history.record(leak(320), "cat x", "leaktest", "leak", database, checkout.folder)
    history.record(leak(0), "ls \udcff\n", "leaktest", "clean", database, checkout.folder.parent)
    lines = shown(capfd, database=database).splitlines()
    assert [line.split()[2:] for line in lines[1:3]] == [[commit[:12], "96", "3", "1", "1", "leak", "cat", "x"],
                                                         [commit[:12] + "+", "320", "10", "1", "0", "leak", "cat", "x"]]
    assert lines[3].split()[2:] == ["no", "commit", "0", "0", "0", "0", "clean", "ls", r"\udcff?"]
    assert shown(capfd, "--command", r"\udcff", database=database).splitlines()[1:] == lines[3:]


def test_dump_is_added(database, tmp_path, capfd):
    pprof.write(profiles.profile(), tmp_path / "dump.pb.gz")
    assert shown(capfd, "--add", str(tmp_path / "dump.pb.gz"), "--command", "boot", database=database) == ""
    lines = shown(capfd, "main;sys_open;Tmp::create;Name::copy", database=database).splitlines()
    assert lines[1] == "    boot" and lines[3].split()[-4:] == ["352", "bytes", "11", "objects"]


def test_concurrent_runs_are_all_recorded(database):
    script = f"""
import sys
sys.path[:0] = [{str(ROOT / "tools")!r}, {str(ROOT / "tests/host")!r}]
import profiles
from stele.report import history
for number in range(10):
    history.record(profiles.guest(number % 3), "together", "leaktest", "leak", {str(database)!r})
"""
    workers = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) for _ in range(4)]
    assert [worker.communicate()[1] for worker in workers] == [b""] * 4
    with history.opened(database) as connection:
        assert len(history.runs_of(connection)) == 40
        assert connection.execute("SELECT count(*) FROM stack").fetchone() == (60,)
        assert connection.execute("SELECT count(*), sum(objects) FROM amount").fetchone() == (800, 800)


def test_recording_that_fails_in_the_middle_leaves_nothing(database):
    history.record(leak(96), "cat x", "leaktest", "leak", database)
    too_large = leak(96)
    too_large.add(Key("large"), Amount(1, 1 << 63))
    with pytest.raises(ReportError):
        history.record(too_large, "cat x", "leaktest", "leak", database)
    with history.opened(database) as connection:
        assert len(history.runs_of(connection)) == 1


def test_other_files(database, capfd):
    assert "no such file" in failed(capfd, database=database)
    assert not database.exists()
    database.write_bytes(b"something else\n" * 100)
    assert "damaged" in failed(capfd, database=database)
    database.unlink()
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE run (id INTEGER)")
    connection.close()
    foreign = database.read_bytes()
    assert "no history" in failed(capfd, database=database)
    with pytest.raises(ReportError, match="no history"):
        history.record(leak(96), "cat x", "leaktest", "leak", database)
    assert database.read_bytes() == foreign
    database.unlink()
    database.mkdir()
    failed(capfd, database=database)


def test_later_version(database, capfd):
    history.record(leak(96), "cat x", "leaktest", "leak", database)
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    assert "version 2, not 1" in failed(capfd, database=database)


def test_damaged_files(database, capfd):
    """If the database is cut or one of its bytes is changed, the command prints a history, or one
    line of error."""
    for number in range(3):
        history.record(leak(96 + number, function=f"function_{number}"), "cat x", "leaktest", "leak", database)
    whole, chance, refused = database.read_bytes(), random.Random(1), 0
    used = [at for at, byte in enumerate(whole) if byte]
    damaged = [whole[:length] for length in range(0, len(whole), 997)]
    damaged += [whole[:at] + bytes([whole[at] ^ chance.randrange(1, 256)]) + whole[at + 1:] for at in chance.sample(used, 400)]
    for bad in damaged:
        database.write_bytes(bad)
        for words in ([], ["function"]):
            status = command.main(["history", "--database", str(database), *words])
            err = capfd.readouterr().err
            assert (status, err.count("\n")) in ((0, 0), (2, 1)), err
            refused += status == 2
    assert refused > 20


def test_leak_test_goes_on_without_its_history(tmp_path):
    """The leak test cannot start a guest here, so its verdict is unknown. If the leak test cannot
    write the history, the leak test says so, and still ends with status 2. If the leak test can
    write the history, the verdict is in the history afterwards."""
    (tmp_path / "history.db").write_bytes(b"something else\n" * 100)
    words = [ROOT / "scripts/leaktest", "--no-build", "--history", tmp_path / "history.db", "--report", tmp_path / "report.txt", "--list"]
    (tmp_path / "list").write_text("ls\n")
    run = subprocess.run([*words, tmp_path / "list"], env={"PATH": "/usr/bin:/bin", "STELE_BUILD": "/proc/none"}, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].startswith(f"leaktest: not in the history: {tmp_path}/history.db: not a history, or damaged")
    (tmp_path / "history.db").unlink()
    subprocess.run([*words, tmp_path / "list"], env={"PATH": "/usr/bin:/bin", "STELE_BUILD": "/proc/none"}, capture_output=True, check=False)
    with history.opened(tmp_path / "history.db") as connection:
        assert [(run.command, run.verdict) for run in history.runs_of(connection)] == [("ls", "unknown")]
