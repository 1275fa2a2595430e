"""A host that does not answer: QEMU holds back the guest's reads of its folder. Waiting processes
can be killed, and no wait is endless."""
import pytest

from guest import guest, sections_of

pytestmark = pytest.mark.cpus(1)

# The first read takes what the host gives in a quarter of an hour, so all others wait. Four
# requests can be in flight; the rest wait for those.
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
# A slot is free only when its answer has come.
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
    # Those that wait for a slot wait for a minute too.
    assert result.stdout.split() == ["1"] * 7 and result.status == 1, result
    assert result.stderr.count("imed out") == 8, result
