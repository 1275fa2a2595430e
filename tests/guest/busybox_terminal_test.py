"""Programs of busybox that need a person at a terminal: the editor vi, script, mesg."""
import pytest

pytestmark = pytest.mark.cpus(1)


def test_vi(terminal):
    """Makes a file, changes it in two places and saves it. Then changes it without saving."""
    terminal.type("vi /tmp/note\r")
    terminal.wait_for(r"^~\n")
    terminal.type("ifirst line\rsecond line\x1b")
    terminal.wait_for(r"^first line\nsecond line\n~[^$]*\n- /tmp/note")  # vi has left insert mode
    terminal.type("k0xp")  # exchanges the first two letters
    terminal.wait_for(r"^ifrst line\n")
    terminal.type(":%s/second/2nd/\r")
    terminal.wait_for(r"^2nd line\n~")
    terminal.type(":w\r")
    terminal.wait_for(r"2L, 20C")
    terminal.type("Golost\x1b")
    terminal.wait_for(r"^lost\n~[^$]*\n- /tmp/note .Modified")
    terminal.type(":q!\r")
    terminal.wait_for(r"^#")
    terminal.type("clear; cat /tmp/note\r")
    terminal.wait_for(r"^ifrst line\n2nd line\n#")


def test_script(terminal):
    """The program `script` runs a shell on a new pseudo-terminal, and records the shell's output."""
    terminal.type("script -q /tmp/log\r")
    terminal.wait_for(r"^#[^#]*\n#|^# *\n#")
    terminal.type("tty; echo $((6 * 7))\r")
    terminal.wait_for(r"pts/\d+\n42\n")
    terminal.type("exit\r")
    terminal.wait_for(r"42\n[^\n]*exit\n#")
    terminal.type("clear; grep -c 42 /tmp/log; tty\r")
    terminal.wait_for(r"^1\n(?!.*pts)")


def test_mesg(terminal):
    terminal.type("mesg n; mesg; mesg y; mesg\r")
    terminal.wait_for(r"^is n\nis y\n#")
