"""Bad surroundings, such as a full disk: scripts and make say one clear line, no traceback, and end with the status for failures of their own.

QEMU is a script here that does what one kind of guest does. Everything else is real."""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

import pytest

from guest import ROOT

NOBODY = 65534
OWN_FAILURE, HUNT_FAILED, INTERRUPTED = 125, 2, 130
GUEST = [sys.executable, str(ROOT / "scripts/guest"), "--no-build", "-c", "true"]
FULL = 1000  # bytes that a file may have where the disk is full
# Writes to the serial ports that scripts/guest gave QEMU, and then does what END says.
QEMU = """#!{python}
import os, re, signal, sys, time
for number, text in ((1, b"kernel\\n"), (2, b"hello\\n"), (4, b"status 7\\n")):
    path = re.search(rf"id=com{{number}},path=(\\S+)", " ".join(sys.argv)).group(1)
    with open(path, "wb") as port:
        port.write(text if "{end}" == "off" else b"")
if "{end}" == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if "{end}" == "runs":
    open(os.environ["STARTED"], "w").close()
    time.sleep(60)
sys.exit(1)
"""


@pytest.fixture
def world(tmp_path):
    """Returns an environment with a build folder, a TMPDIR, and a QEMU whose guest prints `hello` and ends with status 7. Every user can reach it."""
    for name in ("build", "tmp", "bin"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    (tmp_path / "build/stele.elf").write_bytes(b"")
    (tmp_path / "build/initrd.cpio").write_bytes(b"\0" * 8192)
    install_qemu(tmp_path, "off")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != pathlib.Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "STELE_BUILD": str(tmp_path / "build"), "TMPDIR": str(tmp_path / "tmp"), "ACCEL": "tcg",
            "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}


def install_qemu(tmp_path, end):
    qemu = tmp_path / "bin/qemu-system-x86_64"
    qemu.write_text(QEMU.format(python=sys.executable, end=end))
    qemu.chmod(0o755)


def run(command, world, **options):
    return subprocess.run(command, env=world, **{"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
                                                 "timeout": 60, "check": False, "text": True, **options})


def one_line(result, status, *words, name="guest"):
    lines = [line for line in result.stderr.splitlines() if line != "kernel"]
    assert result.returncode == status and len(lines) == 1 and lines[0].startswith(f"{name}: "), result
    assert all(word in lines[0] for word in words), lines


def disk_is_full():
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL))


def test_a_guest_in_good_surroundings(world):
    result = run(GUEST, world)
    assert (result.returncode, result.stdout, result.stderr) == (7, "hello\n", "kernel\n"), result


def test_the_folder_for_temporary_files_is_full(world):
    one_line(run(GUEST, world, preexec_fn=disk_is_full), OWN_FAILURE, world["TMPDIR"], "File too large")


def test_the_disk_of_temporary_files_is_full(world):
    """The same with a real file system, where this user may mount one in a namespace of its own."""
    mount = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=4k none "$TMPDIR" && exec "$@"', "sh"]
    if run([*mount, "true"], world).returncode != 0:
        pytest.skip("no file system can be mounted here")
    one_line(run([*mount, *GUEST], world), OWN_FAILURE, world["TMPDIR"], "No space left on device")


def test_the_folder_for_temporary_files_is_missing(world):
    world["TMPDIR"] += "/none"
    one_line(run(GUEST, world), OWN_FAILURE, world["TMPDIR"], "No such file or directory")


@pytest.mark.skipif(os.getuid() != 0, reason="root alone can take another user's place")
@pytest.mark.parametrize("what, command, status, name", (
    ("TMPDIR", [], OWN_FAILURE, "guest"),
    ("STELE_BUILD", ["leaksweep", "--no-build", "true"], HUNT_FAILED, "leaksweep"),
    ("STELE_BUILD", ["leakfuzz", "--no-build"], HUNT_FAILED, "leakfuzz"),
    ("STELE_BUILD", ["stress", "--once"], HUNT_FAILED, "stress")))
def test_a_folder_that_may_not_be_written(world, tmp_path, what, command, status, name):
    pathlib.Path(world[what]).chmod(0o555)
    tool = [sys.executable, tmp_path / "tree/scripts" / command[0], *command[1:]] if command else [
        sys.executable, tmp_path / "tree/scripts/guest", *GUEST[2:]]
    for folder in ("scripts", "tools", "kern/abi"):  # another user need not be able to read this tree
        shutil.copytree(ROOT / folder, tmp_path / "tree" / folder, ignore=shutil.ignore_patterns("node_modules"))
    one_line(run(tool, world, cwd=tmp_path, user=NOBODY, group=NOBODY, extra_groups=[]), status, world[what], "Permission denied", name=name)


def test_qemu_is_missing(world, tmp_path):
    (tmp_path / "bin/qemu-system-x86_64").unlink()
    world["PATH"] = str(tmp_path / "bin")
    one_line(run(GUEST, world), OWN_FAILURE, "qemu-system-x86_64 is not installed", "scripts/setup run")


def test_qemu_is_killed(world, tmp_path):
    install_qemu(tmp_path, "killed")
    one_line(run(GUEST, world), OWN_FAILURE, "QEMU was killed by signal 9")


@pytest.mark.parametrize("option, value, said", (
    ("--share", "/proc/none", "--share /proc/none"), ("--smp", "many", "--smp: invalid int value: 'many'"),
    ("--log", "/proc/none", "/proc/none: No such file or directory")))
def test_options_that_cannot_be(world, option, value, said):
    one_line(run([*GUEST, option, value], world), OWN_FAILURE, said)


def test_output_that_finds_no_room(world):
    """The status of the script would say that its output is complete."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        one_line(run(GUEST, world, stdout=full), OWN_FAILURE, "standard output: No space left on device")
    one_line(run([*GUEST, "--log", "/dev/full"], world), OWN_FAILURE, "/dev/full: No space left on device")


def test_standard_output_is_closed(world):
    result = run(["sh", "-c", 'exec "$@" >&-', "sh", *GUEST], world)
    assert (result.returncode, result.stderr) == (7, "kernel\n"), result


def test_an_interrupted_guest(world, tmp_path):
    install_qemu(tmp_path, "runs")
    os.mkfifo(tmp_path / "started")
    with subprocess.Popen(GUEST, env={**world, "STARTED": str(tmp_path / "started")}, stderr=subprocess.PIPE, text=True) as guest:
        with open(tmp_path / "started", encoding="utf-8"):  # waits for QEMU
            guest.send_signal(signal.SIGINT)
        errors = guest.stderr.read()
    assert (guest.returncode, errors) == (INTERRUPTED, "guest: interrupted\n")


@pytest.mark.parametrize("change", ({"HOME": None}, {"LC_ALL": "C", "LANG": "C"}))
def test_a_poor_environment(world, change):
    world = {name: value for name, value in {**world, **change}.items() if value is not None}
    result = run([*GUEST[:-1], "echo ä"], world, umask=0o077)
    assert (result.returncode, result.stdout) == (7, "hello\n"), result


@pytest.mark.parametrize("report", ("/proc/none/report.txt", "/dev/full"))
def test_a_report_that_finds_no_room(world, report):
    result = run([sys.executable, "scripts/leaktest", "--no-build", "--quick", "--report", report, "true"], world)
    last = result.stderr.splitlines()[-1]
    assert result.returncode == HUNT_FAILED and re.match(r"leaktest: .*(/proc|No space left on device)", last), result
    assert "Traceback" not in result.stderr, result


def test_a_path_with_blanks(world, tmp_path):
    tree = tmp_path / "a clone"
    tree.mkdir()
    shutil.copy(ROOT / "Makefile", tree)
    result = run(["make", "-C", str(tree), "kernel"], world)
    assert result.returncode == 2 and re.fullmatch(r"Makefile:\d+: \*\*\* .*has a blank.*a clone\.  Stop\.\n", result.stderr), result


@pytest.mark.parametrize("base, why, limit", (("/proc/none", "No such file or directory", None), ("build", "File (too large|size limit)", disk_is_full)))
def test_a_build_folder_that_cannot_be_written(world, tmp_path, base, why, limit):
    base = str(tmp_path / base)
    result = run(["make", "kernel", f"BASE={base}"], world, preexec_fn=limit)
    assert result.returncode == 2 and re.fullmatch(rf"Makefile:\d+: \*\*\* the build folder {base} cannot be written: .*{why}.*\n", result.stderr), result
    assert not list((tmp_path / "build").glob(".room*"))


def test_an_image_that_cannot_be_written(world, tmp_path):
    """The program that writes the image prints a dozen lines, of which the last ones do not give the reason."""
    done = run(["scripts/mkiso", "/usr/bin/true", str(tmp_path / "build/initrd.cpio"), str(tmp_path / "absent/stele.iso")], world)
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"mkiso: \S+/absent/stele\.iso: .* Neither stdio-path nor its directory exist\n", done.stderr)


def test_a_report_that_does_not_fit(world, tmp_path):
    """The error of a write names no file by itself."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); from stele import entry; " \
           f"entry.run(lambda: entry.write({str(tmp_path / 'report.txt')!r}, b'x' * {FULL * 2}), 'leaktest')"
    done = run([sys.executable, "-c", code], world, preexec_fn=disk_is_full)
    assert (done.returncode, done.stderr) == (2, f"leaktest: {tmp_path / 'report.txt'}: File too large\n")
