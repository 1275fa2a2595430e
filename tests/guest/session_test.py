"""Sessions: the console's shell ends correctly, and a program with other rights than its caller has its standard files."""
import re

from console import Console
from guest import guest


def test_a_shell_ends():
    """When the console's shell ends, the shell's session loses the console. A job that still runs can then no longer write to the console. A stopped
    job ends."""
    with Console() as console:
        assert console.PROMPT in console.read_until(console.PROMPT)
        console.type("(trap '' HUP; while [ -d /proc/$$ ]; do usleep 1000; done; /bin/echo unseen; echo status $? > /tmp/status) &\r")
        console.read_until(console.PROMPT)
        console.type("sleep 1000 & kill -STOP $!; until grep -q 'State:.T' /proc/$!/status; do usleep 1000; done; echo gone\r")
        after = console.read_until("\ngone").partition("\ngone")[2]
        assert console.PROMPT in after or console.PROMPT in console.read_until(console.PROMPT)
        console.type("exit\r")  # the shell warns about stopped jobs
        console.read_until(console.PROMPT)
        console.type("exit\r")
        console.read_until(console.PROMPT)
        console.type("while [ ! -s /tmp/status ]; do usleep 1000; done; cat /tmp/status; pidof sleep; echo ready\r")
        said = console.read_until("\nready")
        assert "\nstatus 1\n" in said and "\nready" in said, said
        assert "\nunseen" not in said and not re.search(r"(?m)^\d+$", said), said


def test_a_set_user_id_program_has_its_three_standard_files():
    """A caller has closed descriptors 0 and 2. A program with other rights gets #null/null there, and not the first file that it opens."""
    result = guest(r"""cp /bin/busybox /tmp/ls; mkdir /tmp/s; cp /bin/busybox /tmp/s/ls; chmod 4755 /tmp/s/ls
for program in /tmp/ls /tmp/s/ls; do proctest as 65534 sh -c "$program /dev/fd 0<&- 2>&-"; echo; done""")
    assert result.stdout == "0\n1\n\n0\n1\n2\n3\n\n", result
