"""scripts/on-debian, with a debootstrap that makes a small system of this machine's programs, so that the test needs no network."""
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
DEBOOTSTRAP = """#!/bin/sh
# debootstrap OPTION… RELEASE ROOT MIRROR
while [ $# -gt 3 ]; do shift; done
[ "$1" != broken ] || { echo "I: Retrieving"; echo "E: Failed getting release file"; exit 1; }
mkdir -p "$2/proc" "$2/sys" "$2/dev" "$2/bin" "$2/etc/apt/apt.conf.d" "$2/etc/dpkg/dpkg.cfg.d"
for program in sh env cat ls sleep echo; do
  file=$(readlink -f "$(command -v $program)")
  cp "$file" "$2/bin/$program"
  for library in $(ldd "$file" | grep -o '/[^ ]*'); do
    mkdir -p "$2${library%/*}"
    cp -L "$library" "$2$library"
  done
done
echo "$1" >"$2/etc/release"
"""


def allowed():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode == 0


needs_root = pytest.mark.skipif(not allowed(), reason="needs root and namespaces")


class Tree:
    """A repository with a copy of the script, and a cache of its own."""

    def __init__(self, folder):
        self.top, self.cache = folder / "a tree", folder / "cache"
        (self.top / "scripts").mkdir(parents=True)
        shutil.copy(TOP / "scripts/on-debian", self.top / "scripts")
        for name in ("kept", "changed", "gone"):
            (self.top / name).write_text("committed\n")
        (self.top / ".gitignore").write_text("ignored\n")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "first")
        programs = folder / "programs"
        programs.mkdir()
        (programs / "debootstrap").write_text(DEBOOTSTRAP)
        (programs / "debootstrap").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.cache), "MIRROR": "http://mirror"}

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.top, *arguments], check=True)

    def command(self, *arguments):
        return [self.top / "scripts/on-debian", *arguments]

    def run(self, *arguments):
        return subprocess.run(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env=self.environment)

    def left(self):
        """Returns the folders in the cache and the mounts below it."""
        return [*(self.cache / "stele/debian").glob("*.*/")] + [line for line in open("/proc/mounts") if str(self.cache.parent) in line]


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@needs_root
def test_copy_is_the_tree_as_it_is(tree):
    (tree.top / "changed").write_text("not committed\n")
    (tree.top / "gone").unlink()
    (tree.top / "a new one").write_text("new\n")
    (tree.top / "staged").write_text("staged\n")
    tree.git("add", "staged")
    (tree.top / "ignored").write_text("built\n")
    done = tree.run("12", "sh", "-c", "cat /etc/release; cat /etc/apt/sources.list; ls; cat kept changed 'a new one' staged; echo $HOME $XDG_CACHE_HOME")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["bookworm", "deb http://mirror bookworm main", "a new one", "changed", "kept", "scripts", "staged",
                                       "committed", "not committed", "new", "staged", "/root", ""]
    assert tree.left() == []


@needs_root
def test_status_is_the_commands_and_each_run_begins_anew(tree):
    assert tree.run("trixie", "sh", "-c", "echo >/left; exit 7").returncode == 7
    done = tree.run("13", "ls", "/left")
    assert done.returncode == 2 and "making" not in done.stderr, done.stderr
    assert tree.run("13", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL


@needs_root
def test_tree_of_another_user(tree):
    for path in [tree.top, *tree.top.rglob("*")]:
        os.chown(path, 65534, 65534)
    done = tree.run("13", "ls", "kept")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments, text", [
    ([], "usage: "),
    (["13"], "usage: "),
    (["../13", "true"], "usage: "),
    pytest.param(["broken", "true"], "cannot make Debian broken: E: Failed getting release file", marks=needs_root),
])
def test_own_failures_are_one_line(tree, arguments, text):
    done = tree.run(*arguments)
    assert done.returncode == 125
    assert done.stderr.split("\n")[-2].startswith(f"on-debian: {text}") and "Traceback" not in done.stderr, done.stderr
    assert tree.left() == []


@needs_root
@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL, "ctrl-c"])
def test_an_end_from_outside_leaves_no_mount_and_no_process(tree, ends):
    terminal, inside = pty.openpty()

    def own_terminal():
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background has inherited that it is ignored
        os.close(os.open(os.ttyname(inside), os.O_RDWR))  # becomes the controlling terminal

    # $0 shows in /proc, so the processes of this run can be found.
    mark = str(tree.cache)
    script = subprocess.Popen(tree.command("13", "sh", "-c", "sleep 1000 & echo ready; wait", mark), env=tree.environment,
                              stdin=inside, stdout=inside, stderr=inside, preexec_fn=own_terminal if ends == "ctrl-c" else None)
    os.close(inside)
    printed = b""
    while b"ready" not in printed:
        printed += os.read(terminal, 1000)
    os.write(terminal, b"\x03") if ends == "ctrl-c" else script.send_signal(ends)
    assert script.wait(30) in (130, 128 + signal.SIGKILL, -signal.SIGKILL)
    os.close(terminal)
    deadline = time.monotonic() + 30
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running(mark) == []
    if ends == signal.SIGKILL:
        assert tree.run("13", "ls").returncode == 0  # removes the files that the killed run left
    assert tree.left() == []


def running(mark):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found
