"""Tests mapped files: changes reach the host's file even if the process is killed, and processes that run
the same program share the pages of its text."""
from guest import guest, live_counts

PAGE = 4096


def heads(path):
    """Returns {first byte of a page: number of pages of the file that begin with this byte}."""
    data, counts = path.read_bytes(), {}
    for at in range(0, len(data), PAGE):
        counts[data[at : at + 1]] = counts.get(data[at : at + 1], 0) + 1
    return counts


def test_what_was_synced_is_on_the_host_when_the_process_is_killed(tmp_path):
    pages = 64 * 256
    (tmp_path / "big").write_bytes(b"o" * (pages * PAGE))
    # In this guest the process is killed. In the second guest below, the process still runs when the guest is turned off.
    result = guest("""
mkfifo /tmp/fifo
maptest change /host/big > /tmp/fifo & read word < /tmp/fifo; echo $word
kill -9 $!; wait $!; echo $?""", "--share", str(tmp_path), "--timeout", "300")
    assert result.stdout == "changed\n137\n", result
    found = heads(tmp_path / "big")
    assert found[b"S"] == pages // 2 and found.get(b"U", 0) + found.get(b"o", 0) == pages // 2
    assert found[b"U"] == pages // 2  # when a process is killed, the system also writes the pages that the process has not synced

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
    """Ten more processes of a program add no page of its text. The shell gets private pages when it first runs a command, so the script runs all
    commands once before it counts."""
    result = guest("""
start() {
  sleep 1000 & pids="$pids $!"
  until grep -q 'Name:.sleep' /proc/$!/status && grep -q 'State:.S' /proc/$!/status; do :; done
}
start_ten() { for i in 1 2 3 4 5 6 7 8 9 10; do start; done; }
look() { echo reap > '#mem/kmemtrace/ctl'; cat '#mem/kmemstat' '#mem/free' '#mem/kmemstat'; }
end() { kill $pids; wait; pids=; }
look > /dev/null; start; start_ten; end
look; start; look; start_ten; look; end; look""")
    assert result.status == 0, result
    before, one, eleven, none = live_counts(result.stdout)[1::2]  # the second kmemstat of each look(), when cat has all its pages
    sizes = [int(line.split()[1]) for line in result.stdout.splitlines() if line.startswith("file_pages ")]
    text = one["cached_page"]
    assert [count["cached_page"] * PAGE for count in (before, one, eleven, none)] == sizes, result
    assert before["cached_page"] == none["cached_page"] > 20, result
    assert text == eleven["cached_page"], result  # no page of the text was loaded a second time
    own = [after["page_4096"] - earlier["page_4096"] for earlier, after in ((before, one), (one, eleven))]
    assert 0 < own[1] < 10 * 20, own


def test_a_file_that_the_host_changes_is_seen_anew(tmp_path):
    (tmp_path / "program").write_text("#!/bin/sh\necho first\n")
    result = guest("""
cp /bin/busybox /host/busybox; chmod 755 /host/busybox
/host/busybox echo one; cp /bin/dash /host/busybox 2>/dev/null || cp /bin/sh /host/busybox; /host/busybox -c 'echo two'
rm /host/busybox; cp /bin/busybox /host/busybox; chmod 755 /host/busybox; /host/busybox echo three""", "--share", str(tmp_path))
    assert result.stdout == "one\ntwo\nthree\n", result
