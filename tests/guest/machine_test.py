"""Machines of several types, with several processors: the system boots, its clock is right, and a leak is found."""
import contextlib
import os
import re
import subprocess
import sys
import time

import pytest

from guest import BUILD, ROOT, guest
from stele import debug_sockets
from stele.qmp import Qmp, QmpError
from debugged import waiting

HUNT = "echo start > #mem/kmemtrace/leaky; leakdemo leak 3; leakdemo clean; echo stop > #mem/kmemtrace/leaky; cat #mem/kmemtrace/leaky"
MACHINES = ("microvm", "pc", "q35", "q35,hpet=off", "microvm,pit=off,pic=off")
PROCESSORS = ("qemu64", "Conroe", "Nehalem", "Haswell", "Skylake-Client", "Icelake-Server", "Opteron_G1", "EPYC", "max")
SECONDS_OF_CLOCK = """i=0; while [ $i -lt 8 ]; do cat '#proc/uptime'; usleep 400000; i=$((i + 1)); done"""
BUSY = 14  # processes that keep the host busy


def hunt(*options):
    result = guest(HUNT, *options, lost=("leaky",))
    assert result.status == 0, result
    assert re.search(r"^kmemtrace leaky state stopped .*\n.* live 3 ", result.stdout, re.M), result
    assert "leaky_open+" in result.stdout


def rate_of_clock(*options):
    """Returns how many seconds pass in the guest for each second of the host."""
    command = [str(ROOT / "scripts/guest"), "--no-build", "--smp", "1", "--log", "/dev/null", *options, "-c", SECONDS_OF_CLOCK]
    seen = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            seen.append((time.monotonic(), float(line.split()[0])))
    assert run.returncode == 0
    (first_host, first_guest), (last_host, last_guest) = seen[0], seen[-1]
    return (last_guest - first_guest) / (last_host - first_host)


@contextlib.contextmanager
def busy_host():
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.cpus(1)
def test_hunt_on_a_microvm():
    hunt("--machine", "microvm")


@pytest.mark.cpus(1)
def test_a_machine_without_acpi_has_one_cpu():
    """Without an interrupt controller the guest has only its console, so the exit status has to say it."""
    result = guest("uname -v | grep -q '^1 CPUs'", "--machine", "pc,acpi=off")
    assert result.status == 0, result


@pytest.mark.cpus(1)
def test_clock_of_a_microvm():
    """A microvm has no gate at channel 2 of its timer, no ACPI timer and no HPET."""
    assert 0.8 < rate_of_clock("--machine", "microvm") < 1.2


@pytest.mark.long
@pytest.mark.cpus(2)
@pytest.mark.parametrize("machine", MACHINES)
def test_hunt_on_machines(machine):
    hunt("--machine", machine)


@pytest.mark.long
@pytest.mark.cpus(2)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_hunt_on_processors(processor):
    hunt("--cpu", processor)


@pytest.mark.long
@pytest.mark.cpus(1)
@pytest.mark.parametrize("machine", MACHINES)
def test_clock_on_a_busy_host(machine):
    """Each boot measures the clock. The first and the last line may arrive late, so the clock is only compared roughly; a wrong measurement is
    wrong by a factor."""
    with busy_host():
        for _ in range(4):
            assert 0.7 < rate_of_clock("--machine", machine) < 1.4


@pytest.mark.cpus(1)
@pytest.mark.parametrize("size, mebibytes", (("64M", 64), ("3G", 3072), ("9G", 9216)))
def test_memory_without_holes(size, mebibytes):
    result = guest("true", "--mem", size, log=False)
    assert result.status == 0, result
    assert f" {mebibytes} MiB of memory, " in result.stderr


def run_machine(machine, typed, *options, until, seconds=60):
    """Boots a machine without QEMU's own power switch, and types a line at the prompt. Returns the console's output up to `until` or QEMU's end,
    and QEMU's status (None if QEMU runs on)."""
    command = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg", "-machine", machine, "-cpu", "max", "-m", "256M", "-nodefaults",
               "-display", "none", "-serial", "stdio", "-kernel", str(BUILD / "stele.elf"), "-initrd", str(BUILD / "initrd.cpio"), *options]
    said, end = b"", time.monotonic() + seconds
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        os.set_blocking(run.stdout.fileno(), False)
        is_typed = False
        while time.monotonic() < end and run.poll() is None and not until(said):
            said += run.stdout.read() or b""
            if not is_typed and said.endswith(b"# "):
                run.stdin.write(typed)
                run.stdin.flush()
                is_typed = True
            time.sleep(0.05)
        status = run.poll()
        run.kill()
    return said.decode("utf-8", "replace"), status


@pytest.mark.cpus(1)
@pytest.mark.parametrize("machine", ("microvm", "pc", "q35"))
def test_power_off_by_acpi(machine):
    """QEMU ends with status 0 only if the guest turns the machine off."""
    said, status = run_machine(machine, b"echo off > /dev/power\r", until=lambda said: False)
    assert status == 0, said


@pytest.mark.cpus(1)
@pytest.mark.parametrize("machine", ("microvm", "pc", "q35"))
def test_reset(machine):
    said, status = run_machine(machine, b"echo reboot > /dev/power\r", until=lambda said: said.count(b"booted by") == 2)
    assert status is None
    assert said.count("booted by") == 2, said


@pytest.mark.cpus(2)
def test_machine_check(tmp_path):
    """Without CR4.MCE and the banks' control registers, QEMU would reset the guest, or not deliver the error at all."""
    with waiting("echo '== ready'; sleep 1000", tmp_path, "--smp", "2") as guest_that_waits:
        qmp = Qmp(debug_sockets.connect(debug_sockets.running(guest_that_waits.number), "qmp"))
        with contextlib.suppress(QmpError):  # the kernel may have ended QEMU before QEMU answers
            qmp.execute("human-monitor-command", **{"command-line": "mce 1 2 0xbe00000000000135 0x4 0x12345000 0x0"})
        end = time.monotonic() + 20
        log = ""
        while "backtrace" not in log and time.monotonic() < end:
            log = (tmp_path / "log").read_text(errors="replace")
            time.sleep(0.1)
    assert "kernel panic: machine check" in log
    assert "bank 2: status 0xbe00000000000135, address 0x12345000" in log
