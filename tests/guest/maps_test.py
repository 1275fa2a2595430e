"""Mapped files: each check of maptest, changes that reach the host although the process is killed, programs that share their text."""
import pytest

from guest import guest, live_counts

PAGE = 4096


@pytest.mark.parametrize("cpus", (pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 4)))
def test_every_check_of_maptest(cpus, tmp_path):
    (tmp_path / "folder").mkdir()
    result = guest("mkdir /tmp/folder; maptest /tmp/folder && exec maptest /host/folder", "--smp", str(cpus), "--share", str(tmp_path))
    assert result.status == 0, result
    assert "not ok" not in result.stdout and result.stdout.count("1..") == 2
    assert not list((tmp_path / "folder").iterdir())


def heads(path):
    """How often each text stands at the beginning of a page."""
    data, counts = path.read_bytes(), {}
    for at in range(0, len(data), PAGE):
        counts[data[at : at + 1]] = counts.get(data[at : at + 1], 0) + 1
    return counts


def test_what_was_synced_is_on_the_host_when_the_process_is_killed(tmp_path):
    pages = 64 * 256
    (tmp_path / "big").write_bytes(b"o" * (pages * PAGE))
    # Killed; and the power goes off under one that still runs.
    result = guest("""
mkfifo /tmp/fifo
maptest change /host/big > /tmp/fifo & read word < /tmp/fifo; echo $word
kill -9 $!; wait $!; echo $?""", "--share", str(tmp_path), "--timeout", "300")
    assert result.stdout == "changed\n137\n", result
    found = heads(tmp_path / "big")
    assert found[b"S"] == pages // 2 and found.get(b"U", 0) + found.get(b"o", 0) == pages // 2
    assert found[b"U"] == pages // 2  # a kill lets the system write the rest, too

    (tmp_path / "big").write_bytes(b"o" * (1024 * PAGE))
    result = guest("mkfifo /tmp/fifo; maptest change /host/big > /tmp/fifo & read word < /tmp/fifo; echo $word",
                   "--share", str(tmp_path))
    assert result.stdout == "changed\n", result
    assert heads(tmp_path / "big") == {b"S": 512, b"U": 512}


def test_more_is_mapped_than_there_is_memory(tmp_path):
    (tmp_path / "big").write_bytes(b"o" * (32 << 20))
    result = guest("maptest press /host/big 20", "--share", str(tmp_path), "--mem", "64M", "--timeout", "300")
    assert result.status == 0 and result.stdout == "pressed\n", result
    assert heads(tmp_path / "big") == {b"P": 8192}


def test_processes_of_one_program_hold_its_text_once():
    result = guest("""
start() { sleep 1000 & pids="$pids $!"; }
look() { echo reap > '#mem/kmemtrace/ctl'; cat '#mem/kmemstat'; grep ^file_pages '#mem/free'; }
start; sleep 0.2; look
for i in 1 2 3 4 5 6 7 8 9 10; do start; done; sleep 0.2; look
kill $pids; wait; look""")
    assert result.status == 0, result
    one, eleven, none = live_counts(result.stdout)
    sizes = [int(line.split()[1]) for line in result.stdout.splitlines() if line.startswith("file_pages ")]
    assert one["cached_page"] * PAGE == sizes[0] and one["cached_page"] > 20
    assert eleven["cached_page"] == one["cached_page"]  # nothing of the text came a second time
    assert none["cached_page"] <= one["cached_page"]
    text, own = one["cached_page"], (eleven["page_4096"] - one["page_4096"]) / 10
    assert own < text / 2 or own < 30, (own, text)


def test_a_file_that_the_host_changes_is_seen_anew(tmp_path):
    (tmp_path / "program").write_text("#!/bin/sh\necho first\n")
    result = guest("""
cp /bin/busybox /host/busybox; chmod 755 /host/busybox
/host/busybox echo one; cp /bin/dash /host/busybox 2>/dev/null || cp /bin/sh /host/busybox; /host/busybox -c 'echo two'
rm /host/busybox; cp /bin/busybox /host/busybox; chmod 755 /host/busybox; /host/busybox echo three""", "--share", str(tmp_path))
    assert result.stdout == "one\ntwo\nthree\n", result
