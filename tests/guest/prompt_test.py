"""The prompt, as a person finds it: the banner, help, dmesg, poweroff, reboot, and reasons for mistakes."""
import contextlib
import os
import re

import pytest

from console import Console
from guest import guest


def test_a_banner_of_two_lines_for_people_only():
    with Console() as console:
        screen = console.read_until("\n# ")
        assert re.search(r"\nStele: .*`help`.*\n`poweroff` .*\n# $", screen), screen
        console.type("poweroff\r")
        assert "power off after" in console.read_until("power off after")
        assert console.process.wait(30) == 0
    result = guest("true")
    assert (result.status, result.stdout, result.stderr) == (0, "", "")


def test_reboot():
    """QEMU ends instead of resetting, because scripts/run gives it -no-reboot."""
    with Console() as console:
        console.read_until("\n# ")
        console.type("reboot\r")
        said = b""
        with contextlib.suppress(OSError):  # the terminal has gone with QEMU
            while data := os.read(console.master, 4096):
                said += data
        assert console.process.wait(30) == 0 and b"reboot" in said and b"power off after" not in said, said


def test_help_names_what_is_there():
    """Every command and every file that `help` names is there, and the trace that it shows works as it is typed."""
    result = guest("help")
    lines = dict(re.findall(r"^  (\S.*?)(?: {2,}(.*))?$", result.stdout, re.MULTILINE))
    assert result.status == 0 and len(lines) >= 9, result
    words = {command.split()[0].rstrip(",") for command in lines} | {"reboot"}
    typed = [command for command in lines if "/mem/" in command]
    result = guest("\n".join([f"command -v {word} > /dev/null || echo no {word}" for word in sorted(words)] +
                             [f"{command} > /tmp/out || echo {command!r} fails" if command.startswith("cat") else command for command in typed]))
    assert len(typed) == 4 and (result.status, result.stdout, result.stderr) == (0, "", ""), result


def test_dmesg_has_the_log():
    result = guest("dmesg; echo log ends; dd if='#cons/klog' bs=7 2> /dev/null", log=False)
    log, _, in_pieces = result.stdout.partition("log ends\n")
    assert "stele: booted by PVH" in log.splitlines()[0] and log == in_pieces, result
    assert [line for line in result.stderr.replace("\r", "").splitlines() if line.startswith("[")][:len(log.splitlines())] == log.splitlines()


def test_the_log_is_bounded():
    """Each program that dies of a fault is a line of the log. The last 256 lines stay, and the file still ends."""
    result = guest("until [ $(dmesg | wc -l) -ge 256 ]; do proctest faults > /dev/null; done; proctest faults > /dev/null; dmesg | wc -l; dmesg | head -1")
    count, first = result.stdout.splitlines()
    assert int(count) == 256 and "booted by" not in first and first.startswith("["), result


@pytest.mark.parametrize("shell", ("sh", "mksh"))
def test_a_typo_gets_the_kernels_reason(shell):
    """The shell's own echo says what the kernel says about a wrong word, as /bin/echo does."""
    result = guest(f"{shell} -c 'echo strat > #mem/kmemtrace/ctl; echo $?; /bin/echo strat > #mem/kmemtrace/ctl; echo $?; echo fine'")
    own, program = result.stderr.splitlines()
    assert result.stdout == "1\n1\nfine\n", result
    assert all('"strat": expected start, refs, stop' in line for line in (own, program)) and own.startswith(shell), result


def test_mistakes_on_the_kernel_command_line():
    """Each wrong word and each name that nothing has is a line on the console; right ones are not mentioned."""
    result = guest("true", "--cmdline", "tarce=all trace=chan,chann,page check=chan,pagee quiet check_panic", log=False)
    said = [line.partition("] ")[2] for line in result.stderr.replace("\r", "").splitlines() if re.search("command line: |=.*this name", line)]
    assert (result.status, said) == (0, ["command line: nothing reads the word tarce=all", "command line: nothing reads the word quiet",
                                         "trace=chann: no cache, arena or class of references has this name so far",
                                         "check=pagee: no cache has this name so far"]), result
    result = guest("true", "--cmdline", "trace=all check=all", log=False)
    assert result.status == 0 and "command line: " not in result.stderr and "this name" not in result.stderr, result
