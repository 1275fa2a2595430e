"""Programs of busybox that want a person: the editor vi, script, mesg."""
import pytest

from terminal import Terminal

pytestmark = pytest.mark.cpus(1)


@pytest.fixture(name="terminal")
def one_terminal():
    with Terminal() as terminal:
        terminal.wait_for(r"^#")
        yield terminal


def test_vi(terminal):
    """A file is made, changed in two places and kept; then it is changed and not kept."""
    terminal.type("vi /tmp/note\r")
    terminal.wait_for(r"^~\n")
    terminal.type("ifirst line\rsecond line\x1b")
    terminal.wait_for(r"^first line\nsecond line\n~[^$]*\n- /tmp/note")  # no longer inserting
    terminal.type("k0xp")  # the first two letters change places
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
    """A shell at a terminal of its own, whose output is kept."""
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
