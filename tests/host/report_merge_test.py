"""scripts/report merge: adds the profiles of many guests to one profile."""
import os
import pathlib
import resource
import signal
import subprocess
from dataclasses import replace

import pytest

import profiles
from stele.report import command, merge, pprof
from stele.report.profile import AGES, Amount, Profile, comparable

REPORT = pathlib.Path(__file__).resolve().parents[2] / "scripts/report"


@pytest.fixture
def guests(tmp_path):
    """Returns a function that writes the profiles of `count` guests and returns their paths."""
    def make(count, **options):
        paths = [tmp_path / f"{number}.pb.gz" for number in range(count)]
        for number, path in enumerate(paths):
            pprof.write(profiles.guest(number, **options), path)
        return [str(path) for path in paths]
    return make


def by_stack(profile):
    sums = Profile()
    for key, amount in profile.amounts.items():
        sums.add(comparable(key), amount)
    return sums.amounts


def failed(capfd, *words):
    """Returns the one line that a command with status 2 prints."""
    assert command.main(["merge", *map(str, words)]) == 2
    out, err = capfd.readouterr()
    assert not out and err.startswith("report: ") and err.count("\n") == 1, err
    return err


@pytest.mark.parametrize("count", [2, merge.FILES_OF_ONE + 10])
def test_little_of_each_comes_on_top(guests, tmp_path, count):
    """In the sum of all guests, the leak has the most bytes. With the larger `count`, each single
    guest has twenty other stacks with more bytes than the leak."""
    few = Amount(20, 60_000 // count * 2, 40, 1000)
    paths = guests(count, common=few)
    assert command.main(["merge", "-o", str(tmp_path / "sum.pb.gz"), *paths]) == 0
    merged = pprof.read(tmp_path / "sum.pb.gz")
    top = max(merged.amounts, key=lambda key: merged.amounts[key].bytes)
    assert top == replace(comparable(profiles.LEAK), process="leakdemo", age=AGES[4])
    assert merged.amounts[top] == Amount(20 * count, few.bytes * count, 40 * count, 1000 * count)
    expected = Profile()
    for path in paths:
        for key, amount in pprof.read(path).amounts.items():
            expected.add(comparable(key), amount)
    assert by_stack(merged) == expected.amounts
    assert merged.build_id == profiles.BUILD and merged.title == f"{count} profiles" and merged.seconds == 10 + count - 1
    assert merged.sources["inode"].counters == {"recorded": 20 * count}
    assert merged.incomplete == [f"in {count} of {count} profiles: inode: N stacks were not recorded"]


def test_merged_ones_can_be_merged(guests, tmp_path):
    paths = guests(4, common=Amount(1, 100))
    for name, files in (("a", paths[:2]), ("b", paths[2:]), ("all", paths)):
        pprof.write(merge.merge(files), tmp_path / name)
    assert by_stack(merge.merge([tmp_path / "a", tmp_path / "b"])) == by_stack(pprof.read(tmp_path / "all"))


def test_output_may_be_an_input(guests):
    paths = guests(2, common=Amount(1, 100))
    assert command.main(["merge", "-o", paths[0], *paths]) == 0
    assert pprof.read(paths[0]).title == "2 profiles"


@pytest.mark.parametrize("count", [1, merge.FILES_OF_ONE + 10])
def test_different_builds(guests, tmp_path, capfd, count):
    paths, out = guests(count, common=Amount(1, 100)), tmp_path / "sum.pb.gz"
    pprof.write(profiles.guest(1, build="ef" * 20), tmp_path / "other.pb.gz")
    pprof.write(profiles.guest(2, build=""), tmp_path / "unknown.pb.gz")
    for other in ("other", "unknown"):
        line = failed(capfd, "-o", out, *paths, tmp_path / f"{other}.pb.gz")
        assert f"{other}.pb.gz: of build" in line and "--any-build" in line
        assert paths[0] in line and not out.exists()
    # merge also refuses the files if the file of the other build is the first one.
    assert "of build" in failed(capfd, "-o", out, tmp_path / "other.pb.gz", *paths)
    assert command.main(["merge", "--any-build", "-o", str(out), *paths, str(tmp_path / "other.pb.gz")]) == 0
    merged = pprof.read(out)
    assert merged.build_id == "" and "2 builds" in merged.incomplete[0]
    assert merged.total().bytes == 100 * count + 20 * 50_000 * (count + 1)


@pytest.mark.parametrize("count", [3, merge.FILES_OF_ONE + 3])
def test_one_bad_file_among_many(guests, tmp_path, capfd, count):
    """With the first value of `count`, merge reads the files in this process. With the second
    value, merge reads them in worker processes."""
    paths, out = guests(count, stacks=2), tmp_path / "sum.pb.gz"
    out.write_bytes(b"as it was")
    whole = pathlib.Path(paths[-1]).read_bytes()
    for bad in (b"", b"no profile", whole[:-5], whole[:40] + b"??" + whole[42:]):
        pathlib.Path(paths[-1]).write_bytes(bad)
        assert failed(capfd, "-o", out, *paths).startswith(f"report: {paths[-1]}: ")
        assert out.read_bytes() == b"as it was"
    assert set(os.listdir(tmp_path)) == {pathlib.Path(path).name for path in paths} | {out.name}


def test_many_different_losses(tmp_path):
    paths = [tmp_path / f"{number}.pb.gz" for number in range(2)]
    for path in paths:
        guest = profiles.guest(0)
        guest.incomplete = [f"{letter}: missing" for letter in "abcdefghijklmnopqrstuvwxyz"]
        pprof.write(guest, path)
    incomplete = merge.merge([str(path) for path in paths]).incomplete
    assert incomplete == [f"in 2 of 2 profiles: {letter}: missing" for letter in "abcdefghijklmnopqrst"] + ["there is more"]


def test_sum_that_is_too_large(guests, tmp_path, capfd):
    paths = guests(2, common=Amount(1, 1 << 62))
    assert "too large" in failed(capfd, "-o", tmp_path / "sum.pb.gz", *paths)


def test_too_many_stacks(guests, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(merge, "MOST_STACKS", 50)
    assert "more than 50 different stacks" in failed(capfd, "-o", tmp_path / "sum.pb.gz", *guests(3))


def test_worker_that_is_killed(guests, tmp_path, capfd, monkeypatch):
    """A worker process is killed. A kernel that has run out of memory may do this."""
    monkeypatch.setattr(merge, "added", killed)
    assert "killed" in failed(capfd, "-o", tmp_path / "sum.pb.gz", *guests(merge.FILES_OF_ONE + 2, stacks=1))
    assert not (tmp_path / "sum.pb.gz").exists()


def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_memory_does_not_grow_with_the_number_of_files(tmp_path):
    """All profiles have the same thousand stacks. To merge a thousand of these profiles takes hardly
    more memory than to merge a hundred."""
    for number in range(100):
        pprof.write(profiles.guest(0, 1000, Amount(1, 64)), tmp_path / f"{number}.pb.gz")
    peaks = []
    for times in (1, 10):
        run = subprocess.run([REPORT, "merge", "-o", tmp_path / "sum.pb.gz", *[tmp_path / f"{number}.pb.gz" for number in range(100)] * times],
                             check=True, capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)))
        assert not run.stderr
        peaks.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    assert peaks[1] < 1.2 * peaks[0]
    assert pprof.read(tmp_path / "sum.pb.gz").total() == Amount(1000 * 1001, 1000 * (1000 * 50_000 + 64))
