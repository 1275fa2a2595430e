"""Files as programs see them: the shared folder of the host, files in memory, the namespace, job control on the console."""
import hashlib
import os
import re

import pytest

from console import Console
from guest import guest, live_counts, sections_of

pytestmark = pytest.mark.cpus(1)

SHARE = r"""
cat /host/note; md5sum < /host/blob; ls /host/many | wc -l
echo one > /host/new; echo two >> /host/new; mv /host/new /host/newer; cat /host/newer
mkdir /host/dir; echo x > /host/dir/x; rmdir /host/dir 2>/dev/null || echo not empty
rm /host/dir/x; rmdir /host/dir; test -e /host/dir || echo gone
cp /host/blob /host/copy; chmod 640 /host/copy; stat -c %s,%a /host/copy 2>/dev/null || ls -l /host/copy | cut -c1-10
: > /host/emptied
cat /host/missing 2>/dev/null || echo missing; echo x 2>/dev/null > /host/note/x || echo no folder
for i in 1 2 3 4 5 6 7 8; do md5sum < /host/blob & done; wait
rm -r /host/many; ls /host
"""

NAMES = r"""
cd /tmp; mkdir -p a/b; cd a/b; pwd; cd ../..; pwd; cd /proc/self/..; pwd
echo x > /tmp/a/b/../../top; cat /tmp/./a//../top
cat < /dev/null; head -c 5 /dev/zero | wc -c; ls /dev | sort | tr '\n' ' '; echo
echo x 2>&1 > /newfile; mkdir /newdir 2>&1; rm /bin/cat 2>&1; ls /bin/cat/x 2>&1; cat '#nosuch/x' 2>&1
mv /tmp/a /tmp/a/b 2>&1; rmdir /tmp/a 2>&1; mv /tmp/top /proc/top 2>&1
"""

# `work` creates and removes files and folders of each kind, and runs commands that fail. The test
# compares the numbers of live objects before and after four rounds.
BALANCE = r"""
work() {
  mkdir /tmp/d; echo text > /tmp/d/f; cp /tmp/d/f /tmp/d/g; mv /tmp/d/g /tmp/d/h; ls -lR /tmp; rm -r /tmp/d
  ls -l /host /proc /dev; cp /host/note /host/n; cat /host/n; rm /host/n; mkdir /host/e; rmdir /host/e
  cat /host/x /tmp/x /x '#nosuch/x' /bin/cat/x; echo x > /x; mkdir /tmp; rmdir /dev /tmp /host; mv /tmp/x /tmp/y; mv /bin/cat /proc
  seq 1 2000 | sort | tail -1; yes | head -5; cat /proc/self/status /proc/1/cmdline; sleep 0 & wait
} > /dev/null 2>&1
work; work; echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat
for i in 1 2 3 4; do work; done; echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat
"""
COUNTED = ("chan", "fd_table", "pipe", "pipe_buffer", "tmp_node", "tmp_entry", "tmp_reader", "file_lock", "locked_file", "tmp_page", "p9_fid", "kmalloc_16", "kmalloc_256", "bytes_16", "bytes_32", "bytes_256")


# Copies a tree into the guest and back: hard and symbolic links, times, modes and a hole.
TREE = r"""
cp -a /host/tree /tmp/tree && cp -a /tmp/tree /host/back && cp -a /tmp/tree/links/absolute /host/one && cat /tmp/tree/links/relative
"""


def tree_of(root):
    """Returns {path: (type and mode, modification time, contents, first path)} of all paths below `root`. The time is in whole seconds, because
    busybox has no finer times; a symbolic link has None. The contents of a symbolic link are its target. Hard links to the same file have the
    same first path."""
    tree, names = {}, {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        first = names.setdefault(status.st_ino, path.relative_to(root))
        times = None if path.is_symlink() else int(status.st_mtime)
        tree[str(path.relative_to(root))] = (oct(status.st_mode), times, what, str(first))
    return tree


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "note").write_text("from the host\n")
    (tmp_path / "emptied").write_text("text\n")
    (tmp_path / "blob").write_bytes(os.urandom(300_000))
    (tmp_path / "many").mkdir()
    for i in range(300):
        (tmp_path / "many" / f"a file with a rather long name, number {i}").write_text("x")
    return tmp_path


@pytest.mark.cpus(4)
def test_a_folder_of_the_host(folder):
    result = guest(SHARE, "--share", str(folder))
    blob = (folder / "blob").read_bytes()
    digest = hashlib.md5(blob).hexdigest() + "  -"
    lines = result.stdout.splitlines()
    assert lines[:3] == ["from the host", digest, "300"], result
    assert lines[3:7] == ["one", "two", "not empty", "gone"], result
    assert lines[7] in ("300000,640", "-rw-r-----"), result
    assert lines[8:10] == ["missing", "no folder"], result
    assert lines[10:18] == [digest] * 8, result
    assert lines[18:] == ["blob", "copy", "emptied", "newer", "note"], result
    assert (folder / "copy").read_bytes() == blob
    assert (folder / "newer").read_text() == "one\ntwo\n"
    assert (folder / "emptied").read_text() == ""


@pytest.mark.cpus(4)
def test_nothing_is_left_behind(folder):
    result = guest(BALANCE, "--share", str(folder))
    before, after = live_counts(result.stdout)
    for cache in COUNTED:
        assert before[cache] == after[cache], f"{cache}\n{result}"


def test_set_user_id_bits_stay_in_the_guest(folder):
    """Set-user-ID and set-group-ID bits that the guest sets in the shared folder do not reach the host. On the host, such bits would
    give others the rights of the user who runs the guest."""
    result = guest("cp /bin/sh /host/made; chmod 6755 /host/made /host/note; mkdir /host/dir; chmod 6755 /host/dir; chmod 4711 /tmp;"
                   "proctest helper modes /host/opened /host/folder; ls -l /host | cut -c1-10", "--share", str(folder))
    assert result.status == 0, result
    assert (folder / "note").stat().st_mode & 0o777 == 0o755
    for name in ("made", "note", "dir", "opened", "folder"):
        assert (folder / name).stat().st_mode & 0o6000 == 0, name


@pytest.mark.parametrize("place", ("/tmp/work", "/host"))
def test_names_links_attributes_locks_and_fifos(tmp_path, place):
    options = ("--share", str(tmp_path)) if place == "/host" else ()
    counted = "echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat"
    run = f"mkdir -p /tmp/work; filetest {place} {'host' if place == '/host' else ''} || exit 1"
    result = guest(f"{run}; {counted}; {run}; {counted}", *options)
    assert "not ok" not in result.stdout and result.status == 0, result
    assert len(re.findall(r"(?m)^1\.\.\d+$", result.stdout)) == 2
    before, after = live_counts(result.stdout)
    for cache in set(COUNTED) & set(before):  # p9_fid exists only with a shared folder
        assert before[cache] == after[cache], f"{cache}\n{result}"
    assert not list(tmp_path.iterdir())


@pytest.mark.icount
def test_search_for_deadlocks_is_short():
    """32 processes have 1,024 locks and wait for each other's locks in a row. One more process waits for all of them."""
    result = guest("mkdir /tmp/work; exec filetest /tmp/work search", "--icount")
    assert result.status == 0 and int(result.stdout.split()[0]) < 500, result


def test_a_tree_comes_in_and_goes_back(tmp_path):
    tree = tmp_path / "tree"
    (tree / "links").mkdir(parents=True)
    (tree / "file").write_bytes(b"text" * 1000)
    (tree / "sparse").write_bytes(b"")
    with (tree / "sparse").open("r+b") as sparse:
        sparse.seek(3_000_000)
        sparse.write(b"end")
    os.link(tree / "file", tree / "links" / "hard")
    for name, target in (("relative", "../file"), ("absolute", "/bin/sh"), ("dangling", "no/such"), ("folder", "..")):
        (tree / "links" / name).symlink_to(target)
    (tree / "file").chmod(0o640)
    (tree / "links").chmod(0o711)
    os.utime(tree / "file", ns=(1_000_000_000_123_456_789, 1_100_000_000_987_654_321))
    os.utime(tree / "links", ns=(5, 1_200_000_000_000_000_001))
    result = guest(TREE, "--share", str(tmp_path))
    assert (result.status, result.stdout) == (0, "text" * 1000), result
    assert tree_of(tmp_path / "back") == tree_of(tree)
    assert tree_of(tree)["links/hard"][3] == "file"
    assert os.readlink(tmp_path / "one") == "/bin/sh"


def test_without_a_share():
    result = guest("ls /host | wc -l; ls '#p9/' 2>&1 | grep -c 'no such device'")
    assert result.stdout.split() == ["0", "1"], result


def test_paths():
    lines = guest(NAMES).stdout.splitlines()
    assert lines[:6] == ["/tmp/a/b", "/tmp", "/proc", "x", "5",
                         "cmdline cons console fd full klog null power ptmx pts random stderr stdin stdout tty urandom zero "], lines
    expected = ["read-only", "read-only", "read-only", "Not a directory", "#nosuch: no such device",
                "cannot be moved into itself", "not empty", "nothing can be renamed|no files|Cross-device|link across"]
    for line, pattern in zip(lines[6:], expected, strict=True):
        assert re.search(f"(?i){pattern}", line), lines


def test_full_tmp_can_be_emptied():
    """When files in /tmp have used up memory, enough is left to run rm. After that, files can be written again."""
    fill = "dd if=/dev/zero of=/tmp/big bs=64k count=2000 2>&1 | grep -c 'No space left'; rm /tmp/big"
    result = guest(f"{fill}; {fill}; ls /tmp; dd if=/dev/zero of=/tmp/x bs=64k count=300 2>/dev/null && echo room",
                   "--mem", "64M")
    assert (result.status, result.stdout) == (0, "1\n1\nroom\n"), result


def test_stop_and_go_on():
    with Console() as console:
        console.read_until("# ")
        console.type("sh -c 'echo running; sleep 1000'\r")
        console.read_until("\nrunning")
        console.type("\x1a")
        assert "Stopped" in console.read_until("# ")
        console.type("bg; kill %1; wait; jobs\r")
        assert "Terminated" in console.read_until("# ")
        # SIGTTIN stops a background job that reads the console, until `fg` continues the job.
        console.type("cat &\r")
        console.read_until("# ")
        console.type("echo the shell reads\r")
        assert "\nthe shell reads\n" in console.read_until("# ")
        console.type("fg\r")
        console.read_until("\\cat ")
        console.type("twice\r\x04")
        assert "twice\ntwice\n" in console.read_until("# ")
        # ^U erases the line.
        console.type("sh -c 'echo reading; cat'\r")
        console.read_until("\nreading")
        console.type("wrong\x15right\r\x04")
        assert "\nright\n" in console.read_until("# ")
        # All processes of a pipeline are one job.
        console.type("sh -c 'echo running >&2; exec yes' | cat > /dev/null\r")
        console.read_until("\nrunning")
        console.type("\x03")
        console.read_until("# ")
        console.type("ps | grep -c '[y]es'\r")
        assert "\n0\n" in console.read_until("# ")


@pytest.mark.parametrize("place", ("/tmp", "/host"))
def test_a_running_program_is_not_written_to(place, folder):
    result = guest(rf"""
cd {place}; cp /bin/sh program; chmod 755 program
$PWD/program -c 'while :; do sleep 1; done' & pid=$!
until grep -q "{place}/program" /proc/$pid/status; do :; done
echo == running; echo x > program; echo x >> program; true > program; cp /bin/cat program; cmp program /bin/sh && $PWD/program -c 'echo runs'
echo == replaced; echo '#!/bin/sh' > next; echo 'echo next' >> next; chmod 755 next; mv next program; $PWD/program; true >> program
kill $pid; wait $pid
echo == written; cp /bin/sh written; chmod 755 written; exec 5>> written; $PWD/written -c 'echo runs'; echo $?; exec 5>&-
$PWD/written -c 'echo ran'; true > written; rm program written
""", "--share", str(folder))
    said = sections_of(result.stdout)
    assert said["running"] == "runs\n" and said["replaced"] == "next\n" and said["written"] == "126\nran\n", result
    assert result.stderr.lower().count("text file busy") == 5, result


# A process is in `old/inner`. The directory `old` is renamed to `new`, and another directory gets the
# name `old`. Then the process is in `new/inner`, and its `..` is `new`.
@pytest.mark.parametrize("place", ("/tmp", "#tmp", "/host"))
def test_a_directory_that_was_renamed_knows_where_it_is(place, folder):
    result = guest(rf"""
mkdir '{place}/old' '{place}/old/inner'; echo right > '{place}/old/note'; cd '{place}/old/inner'
mv '{place}/old' '{place}/new'; mkdir '{place}/old' '{place}/old/inner'; echo wrong > '{place}/old/note'
env pwd; cat ../note; (cd -P ..; env pwd; cat note); ls ../..
mv '{place}/new/inner' '{place}/other'; env pwd; cat ../old/note
rmdir '{place}/other'; env pwd || echo removed
""", "--share", str(folder))
    entries = sorted(["new", "old", *([path.name for path in folder.iterdir() if path.name not in ("new", "old")] if place == "/host" else [])])
    assert result.stdout.splitlines() == [f"{place}/new/inner", "right", f"{place}/new", "right", *entries, f"{place}/other", "wrong", "removed"], result


# After a rename, an open file of /tmp has the new name. For an open file of /host the kernel cannot
# ask the host for the current name, so there the result is an error, not the old name.
def test_an_open_file_in_a_directory_that_was_renamed_has_no_old_name(folder):
    result = guest(r"""
for place in /tmp /host; do
  mkdir $place/old $place/old/inner; echo x > $place/old/inner/file; cd $place/old/inner
  proctest helper name file ../../old ../../new; proctest helper name file ../../new ../../old/ 2>&1; cat file; env pwd
done
""", "--share", str(folder))
    assert result.stdout.splitlines() == ["/tmp/new/inner/file", "/tmp/old/inner/file", "x", "/tmp/old/inner",
                                          "No such file or directory", "No such file or directory", "x", "/host/old/inner"], result


@pytest.mark.icount
def test_a_large_directory_is_as_fast_as_a_small_one():
    """A look-up in #tmp holds the device's lock, so a user who makes very many files in a directory must not slow down everybody's."""
    script = """mkdir /tmp/large; cd /tmp/large
now() { cut -d ' ' -f 1 /proc/uptime; }
now; seq 10001 12000 | xargs touch; now; seq 12001 20000 | xargs touch; now; seq 20001 22000 | xargs touch; now; ls | wc -l; ls | tail -n 1"""
    *times, number, last = guest(script, "--icount", "--mem", "128M", "--timeout", "200").stdout.split()
    first, _, late = (float(end) - float(begin) for begin, end in zip(times, times[1:]))
    assert (number, last) == ("12000", "22000") and late < 1.5 * first, (times, number)
