"""scripts/guest itself, power-on, and the console."""
import re
import subprocess

import pytest

from console import Console
from guest import BUILD, ROOT, guest

INSTRUCTIONS_TO_PROMPT = 2_000_000_000


def test_status_and_streams():
    result = guest("echo out; echo err >&2; exit 3")
    assert (result.status, result.stdout, result.stderr) == (3, "out\n", "err\n")


def test_every_byte_comes_through():
    """A script writes 1 MB of all byte values. scripts/guest prints exactly these bytes."""
    line = "".join(f"\\{byte:03o}" for byte in range(256))
    command = [str(ROOT / "scripts/guest"), "--no-build", "--smp", "1", "--log", "/dev/null", "-c",
               f"printf '{line}' > /tmp/b; for i in 1 2 3 4 5 6; do cat /tmp/b /tmp/b /tmp/b /tmp/b > /tmp/c; mv /tmp/c /tmp/b; "
               "done; cat /tmp/b"]
    run = subprocess.run(command, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout) == 256 * 4**6
    assert run.stdout == bytes(range(256)) * 4**6


def test_standard_input_is_empty():
    result = guest("cat; echo $?")
    assert (result.status, result.stdout) == (0, "0\n"), result


def test_a_signal_is_a_status():
    assert guest("kill -9 $$").status == 128 + 9


@pytest.mark.cpus(1)
def test_timeout():
    assert guest("sleep 1000", "--timeout", "2").status == 124


@pytest.mark.cpus(4)
def test_panic():
    result = guest("echo panic > #debug/ctl")
    assert result.status == 134, result
    assert "requested through #debug/ctl" in result.stderr
    assert re.search(r"sys_write\+0x[0-9a-f]+ \[kernel\]", result.stderr)


@pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.cpus(n)) for n in (1, 16, 64)])
def test_processors(number):
    result = guest("echo hello | cat", log=False)
    assert (result.status, result.stdout) == (0, "hello\n"), result
    assert f"] {number} CPUs, " in result.stderr


def test_a_guest_that_ends_without_a_word():
    result = guest("echo never", "--cmdline", "poweroff")
    assert (result.status, result.stdout) == (125, ""), result
    assert "ended without a word" in result.stderr


def test_the_default_kernel_has_no_kernel_tests():
    if "CONFIG_KERNEL_TESTS=y" in (BUILD / "kconfig/.config").read_text():
        pytest.skip("this build has kernel tests: `make defconfig` leaves them out")
    result = guest("echo never", "--cmdline", "ktest", log=False)
    assert result.stdout == "" and "ktest: this kernel has no tests" in result.stderr, result


def test_little_memory():
    result = guest("ls / | wc -l", "--mem", "96M")
    assert result.status == 0, result


@pytest.mark.cpus(4)
def test_an_end_without_memory():
    """The script's shell is killed while loops leak all memory in the kernel. The loops also leak
    the memory that the shell frees, so the guest must turn itself off although no memory is free."""
    leak = """for n in 10000 1000 100 10 1; do while echo "leak debug_1024 $n" > '#debug/alloc'; do :; done; done 2> /dev/null"""
    for _ in range(5):
        result = guest(f"for cpu in 1 2 3 4; do while :; do {leak}; done & done\n{leak}\nkill -9 $$",
                       "--mem", "48M", "--timeout", "60", log=False)
        assert result.status == 128 + 9, result


def test_share(tmp_path):
    (tmp_path / "note").write_text("from the host\n")
    result = guest("cat /host/note && echo back > /host/answer", "--share", str(tmp_path))
    assert (result.status, result.stdout) == (0, "from the host\n"), result
    assert (tmp_path / "answer").read_text() == "back\n"


@pytest.mark.icount
@pytest.mark.parametrize("smp", ("1", "4"))
def test_instructions_to_the_prompt(smp):
    """At power-off the kernel prints the ticks of the time stamp counter since power-on, including the
    firmware's. Under --icount a tick is an instruction."""
    result = guest("true", "--icount", "--smp", smp, log=False)
    assert result.status == 0, result
    [ticks] = re.findall(r"power off after (\d+) ticks", result.stderr)
    assert int(ticks) < INSTRUCTIONS_TO_PROMPT


def prompt(console):
    assert "\n# " in "\n" + console.read_until("# ")


def test_a_session():
    with Console() as console:
        prompt(console)
        console.type("echo $((6 * 7))\r")
        assert "\n42\n" in console.read_until("# ")
        # The typed line can be edited.
        console.type("echo wronx\x7fg\r")
        assert "\nwrong\n" in console.read_until("# ")
        # ^C ends the foreground job, and the shell goes on.
        console.type("sh -c 'echo running; sleep 1000'\r")
        console.read_until("\nrunning")
        console.type("\x03")
        console.read_until("# ")
        console.type("echo $?\r")
        assert "\n130\n" in console.read_until("# ")
        # ^C also discards a line that is being typed.
        console.type("echo never\x03")
        assert "\nnever" not in console.read_until("# ")
        # ^D ends the input of a program. On an empty line it ends the shell, and init starts
        # another one.
        console.type("sh -c 'echo reading; cat'\r")
        console.read_until("\nreading")
        console.type("twice\r\x04")
        assert "twice\ntwice\n" in console.read_until("# ")
        console.type("x=1\r")
        console.read_until("# ")
        console.type("\x04")
        console.read_until("# ")
        console.type("echo x=$x.\r")
        assert "\nx=.\n" in console.read_until("# ")
        # Trace commands at the console.
        console.type("echo start > #mem/kmemtrace/pipe; ls / | cat > /dev/null; echo stop > #mem/kmemtrace/pipe\r")
        console.read_until("# ")
        console.type("cat #mem/kmemtrace/pipe\r")
        assert re.search(r"kmemtrace pipe state stopped (?s:.*) live 0 ", console.read_until("# "))


def test_without_a_terminal():
    run = subprocess.run([str(ROOT / "scripts/run"), "--smp", "1", "--kernel", str(BUILD / "stele.elf"), "--initrd", str(BUILD / "initrd.cpio")],
                         input="echo $((6 * 7))", capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    # Right after the input, scripts/run types the command that turns the guest off. The echo of that command may come before the answer 42.
    assert re.search(r"42\r?\n", run.stdout), run.stdout


@pytest.mark.cpus(4)
def test_iso():
    subprocess.run([str(ROOT / "scripts/mkiso"), str(BUILD / "stele.elf"), str(BUILD / "initrd.cpio"), str(BUILD / "test.iso")],
                   check=True)
    with Console("--iso", str(BUILD / "test.iso")) as console:
        assert "booted by Multiboot2" in console.read_until("# ", 120)
        console.type("echo $((6 * 7))\r")
        assert "\n42\n" in console.read_until("# ")
