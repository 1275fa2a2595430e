"""A user who is not root tries to read, write and change every file of every device. The kernel does not panic, the user sees no kernel address,
and nothing that belongs to others changes."""
import re

import pytest

from guest import ROOT, checked

pytestmark = pytest.mark.cpus(1)

NOBODY = 65534
DEVICES = sorted(name for source in [*(ROOT / "kern/drivers/dev").glob("*.cc"), *(ROOT / "kern/bench").glob("*.cc")]
                 for name in re.findall(r'constexpr \w+Device\(\) : \w*Device\("(\w+)"', source.read_text()))
# The user cannot find these files in listings. Some are below directories that only root can read, and the others do not exist.
HIDDEN = ["#mem/kmemtrace/ctl", "#mem/kmemtrace/chan", "#mem/kmemtrace/debug_64", "#probe/1", "#probe/1/ctl", "#probe/1/counts", "#probe/1/events",
          "#probe/1/outstanding", "#debug/leaky/clean", "#debug/leaky/leak", "/tmp/closed/file", "/proc/1/ctl", "/proc/none", "#nothing", "#mem.x"]
# The lines that `proctest walk` prints for actions that are allowed to every user.
HIS = re.compile(r"wrote (#cons|#null|(#root)?/dev)/(cons|console|null|zero)|(wrote|set terminal) (#pty|(#root)?/dev)/ptmx|made a (file|directory) in (#tmp|(#root)?/tmp)")

# A shell function for root: prints the state of the system that other users must not change.
STATE = r"""
state() {
  echo == state
  cat '#mem/kmemtrace/ctl' | grep -v '^limit'; cat '#debug/alloc' '#debug/text'
  ls -lRn '#mem' '#debug' '#cons' '#uart' '#null' '#random' '#bench' /tmp /host | grep -v '^total'; ls -ln '#root' /etc | sed 's/ [A-Z][a-z][a-z] .* tmp$/ tmp/'; ls '#probe'; ls '#probe/1'
  cat '#probe/1/counts' '#probe/1/ctl'; cat /tmp/note /tmp/closed/file /tmp/open/file /host/note /host/dir/file
  for pid in 1 $$ $sleeper; do cut -d ' ' -f 1,2,4-8 /proc/$pid/stat; done
  grep -E '^ *(leaky|debug_64) ' '#mem/kmemstat'
}
"""
PREPARE = r"""
umask 022
mkdir /tmp/closed /tmp/open; echo text | tee /tmp/note /tmp/closed/file > /tmp/open/file; chmod 700 /tmp/closed
exec 5<> '#probe/clone'; printf 'count sys_bind\n' >&5
echo start > '#mem/kmemtrace/debug_64'; echo 'leak debug_64 5' > '#debug/alloc'; echo stop > '#mem/kmemtrace/debug_64'
sleep 1000 & sleeper=$!
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "dir").mkdir()
    for name in ("note", "dir/file"):
        (tmp_path / name).write_text("the host's\n")
        (tmp_path / name).chmod(0o644)
    return tmp_path


def walk(command, folder):
    """Runs `command` with the paths of all devices and of HIDDEN. Checks that `state` prints the same before and after, and that the command
    reports only actions that HIS allows. Returns the numbers of files that the command's processes have tried."""
    assert len(DEVICES) >= 13
    paths = [f"#{name}" for name in DEVICES] + HIDDEN + ["/dev", "/proc", "/tmp", "/host"]
    names = " ".join(f"'{path}'" for path in paths)
    output = checked(f"{STATE}{PREPARE}state; echo == walk; {command} {names}; echo status $?; state; kill -9 $sleeper",
                     "--share", str(folder), "--timeout", "500")
    before, said, after = [part.splitlines()[1:] for part in output.split("== ")[1:]]
    assert before == after
    assert said[-1] == "status 0", said
    walked = [int(line.removeprefix("walked ")) for line in said if line.startswith("walked ")]
    assert min(walked) > 200, said
    assert [line for line in said[:-1] if not HIS.fullmatch(line) and not line.startswith("walked ")] == []
    return walked


def test_nobody_walks_everything(folder):
    assert len(walk(f"proctest walk {NOBODY}", folder)) == 1


@pytest.mark.long
@pytest.mark.cpus(4)
def test_a_crowd_walks_everything(folder):
    assert len(walk(f"proctest crowd {NOBODY} 2", folder)) == 2
