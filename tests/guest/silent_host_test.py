"""A host that does not answer: QEMU does not serve the guest's reads of the shared folder. Processes that wait for the host can be killed, and
their reads fail after a minute. Nor does it take the guest's output: the guest waits, loses none, and mixes no lines."""
import subprocess

import pytest

from guest import ROOT, guest, sections_of

pytestmark = pytest.mark.cpus(1)

# With --share-rate 1, QEMU serves the first read, and then no other for a quarter of an hour. Seven processes read. The kernel has four slots for
# requests to the host, so the other readers wait for a free slot.
SILENCE = r"""
readers=
for i in 1 2 3 4 5 6 7; do cat /host/blob > /dev/null & readers="$readers $!"; done
waiting() { for pid in $readers; do cut -d ' ' -f 3 /proc/$pid/stat; done | grep -c S; }
until [ "$(waiting)" = 7 ]; do :; done
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "blob").write_bytes(b"x" * 1000)
    return tmp_path


def silent(script, folder, *options):
    return guest(SILENCE + script, "--share", str(folder), "--share-rate", "1", *options)


def test_who_waits_for_the_host_can_be_killed(folder):
    result = silent(r"""
set -- $readers; ends() { kill -$1 $2; wait $2; echo $?; }
echo == one; ends TERM $1; shift
# A killed reader ends at once, but its slot becomes free only when the host has answered.
echo == all; for pid; do ends KILL $pid; done
echo == others; echo text > /tmp/file; cat /tmp/file
""", folder)
    assert result.status == 0, result
    ended = sections_of(result.stdout)
    assert ended["one"].split() == ["143"] and ended["all"].split() == ["137"] * 6, result
    assert ended["others"] == "text\n", result


@pytest.mark.long
def test_silence_ends(folder):
    result = silent("""
for pid in $readers; do wait $pid; echo $?; done
cat /host/blob
""", folder, "--timeout", "400")
    # All reads fail after a minute, also the reads of processes that wait for a slot.
    assert result.stdout.split() == ["1"] * 7 and result.status == 1, result
    assert result.stderr.count("imed out") == 8, result


@pytest.mark.cpus(4)
def test_lines_of_several_programs_do_not_mix():
    """Would find a serial port that sends a part of one program's line, then a part of another's."""
    line = "0123456789abcdefghijklmnopqrstuvwxyz"
    result = guest(f"for i in 1 2 3 4; do awk 'BEGIN {{ while (n++ < 500) {{ print \"{line}\"; fflush() }} }}' & done; wait", "--smp", "4")
    lines = result.stdout.splitlines()
    assert len(lines) == 2000 and set(lines) == {line}, set(lines)


@pytest.mark.cpus(2)
def test_output_that_the_host_does_not_take_is_not_lost():
    """Would find a serial port that drops bytes after a second."""
    # The writer's system time (in /proc/PID/stat, in hundredths of a second) grows while it asks the port in vain.
    script = """awk 'BEGIN { for (i = 0; i < 60000; i++) print i }' & until set -- $(cat /proc/$!/stat) && [ "${15}" -ge 100 ]; do :; done; echo full >&2; wait"""
    with subprocess.Popen([ROOT / "scripts/guest", "--no-build", "--smp", "2", "--timeout", "60", "-c", script], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as run:
        while "full\n" not in run.stderr.readline():
            assert run.poll() is None, "it wrote all although nobody reads"
        assert run.stdout.read() == "".join(f"{i}\n" for i in range(60000))
        run.stderr.read()
    assert run.returncode == 0
