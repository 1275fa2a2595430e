"""The image on a PC: it boots by BIOS and by UEFI, from a CD and from a USB stick, and in Bochs. The console is on the screen and the keyboard."""
import re
import subprocess
import time

import pytest

from bochs import Bochs
from guest import BUILD, ROOT
from screen import ScreenConsole
from stele.dump import parse_dumps

# README's first hunt.
HUNT = ["echo start > #mem/kmemtrace/leaky", "leakdemo leak 3", "leakdemo clean", "echo stop > #mem/kmemtrace/leaky", "cat #mem/kmemtrace/leaky"]


def make_iso(folder, words=""):
    iso = folder / "stele.iso"
    subprocess.run([str(ROOT / "scripts/mkiso"), str(BUILD / "stele.elf"), str(BUILD / "initrd.cpio"), str(iso), words], check=True)
    return iso


def wait_for_prompt(console):
    lines = console.wait_for_screen(lambda lines: "#" in lines, 120)
    console.read_until("\n# ")
    return lines


def check_hunt(console):
    """Types README's hunt on the keyboard, and finds the leak in the text that the serial port got."""
    for command in HUNT:
        output = console.run(command)
    console.wait_for_screen(lambda lines: any("leaky_open+" in line for line in lines))
    [dump] = parse_dumps(output)
    assert (dump.counters["live"], dump.counters["freed"]) == (3, 10)


@pytest.mark.cpus(1)
def test_by_uefi_on_screen_and_keyboard(tmp_path):
    with ScreenConsole(make_iso(tmp_path, "trace=all"), tmp_path, "uefi") as console:
        lines = wait_for_prompt(console)
        assert "booted by Multiboot2" in lines[0] and "command line 'trace=all'" in lines[0]
        # An erased letter, and shift. The serial port shows the command's output too.
        output = console.run("echo wronx\bg > /tmp/x; cat /tmp/x | tr a-z A-Z; stty size")
        assert "\nWRONG\n48 128\n" in output
        lines = console.wait_for_screen(lambda lines: "48 128" in lines)
        assert lines[lines.index("48 128") - 2:][:2] == ["# echo wrong > /tmp/x; cat /tmp/x | tr a-z A-Z; stty size", "WRONG"]
        # The screen shows the output of a command typed at the serial port. It scrolls.
        console.type("seq 1000\r")
        console.read_until("\n# ")
        lines = console.wait_for_screen(lambda lines: "1000" in lines)
        assert lines[lines.index("1000") - 45:][:46] == [str(number) for number in range(955, 1001)]
        # A panic stays on the screen: the machine does not turn itself off, for which it would need a moment only. The report of the traces is
        # longer than the screen, and the message and the backtrace remain.
        console.press_text("echo panic > #debug/ctl\n")
        assert " others: " in console.read_until(" others: ")
        time.sleep(1)
        lines = console.screen()
        assert "kernel panic: requested through #debug/ctl" in lines
        assert any(re.match(r"    [0-9a-f]{16} sys_write\+0x", line) for line in lines)
        assert " allocations are live in " in "".join(lines)


@pytest.mark.long
@pytest.mark.parametrize("medium", ("iso", "stick"))
@pytest.mark.parametrize("machine", ("pc", "q35"))
@pytest.mark.parametrize("firmware", ("bios", "uefi"))
def test_each_way_to_boot(firmware, machine, medium, tmp_path):
    with ScreenConsole(make_iso(tmp_path), tmp_path, firmware, machine, medium) as console:
        wait_for_prompt(console)
        check_hunt(console)


@pytest.mark.long
@pytest.mark.parametrize("firmware", ("bios", "uefi"))
def test_without_a_keyboard_controller(firmware, tmp_path):
    with ScreenConsole(make_iso(tmp_path), tmp_path, firmware, "q35,i8042=off") as console:
        lines = wait_for_prompt(console)
        assert any(line.endswith("#cons: no keyboard controller") for line in lines)
        console.type("echo $((6 * 7))\r")
        console.wait_for_screen(lambda lines: "42" in lines)


@pytest.mark.long
def test_bochs(tmp_path):
    """Bochs takes a minute of the processor to the prompt. It logs an error where the kernel breaks a rule of the processor."""
    with Bochs(make_iso(tmp_path), tmp_path, cpus=4) as console:
        assert " 4 CPUs, " in console.read_until("# ", 900)
        for command in HUNT:
            console.type(command + "\r")
            output = console.read_until("\n# ", 120)
        [dump] = parse_dumps(output)
        assert (dump.counters["live"], dump.counters["freed"]) == (3, 10)
        lines = console.stop_and_read_screen()
        assert any(line.strip().startswith("leaky_open+0x") for line in lines) and lines[-1] == "#", lines
        assert not re.findall(r"(?m)^\d+[ep]\[CPU.*", console.log.read_text())
