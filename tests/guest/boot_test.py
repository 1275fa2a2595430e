"""scripts/guest itself, power-on, and the console."""
import os
import re
import subprocess
import tempfile
import unittest

from console import Console
from guest import BUILD, ROOT, guest

INSTRUCTIONS_TO_PROMPT = 2_000_000_000


class Runner(unittest.TestCase):
    def test_status_and_streams(self):
        result = guest("echo out; echo err >&2; exit 3")
        self.assertEqual((result.status, result.stdout, result.stderr), (3, "out\n", "err\n"))

    def test_every_byte_comes_through(self):
        """2 MB of all byte values, in order, and nothing added."""
        line = "".join(f"\\{byte:03o}" for byte in range(256))
        command = [str(ROOT / "scripts/guest"), "--no-build", "--log", "/dev/null", "-c",
                   f"printf '{line}' > /tmp/b; for i in 1 2 3 4 5 6 7 8; do cat /tmp/b /tmp/b /tmp/b /tmp/b > /tmp/c; mv /tmp/c /tmp/b; "
                   "[ $i = 6 ] && break; done; cat /tmp/b"]
        run = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(run.stdout), 256 * 4**6)
        self.assertEqual(run.stdout, bytes(range(256)) * 4**6)

    def test_standard_input_is_empty(self):
        result = guest("cat; echo $?")
        self.assertEqual((result.status, result.stdout), (0, "0\n"), result)

    def test_a_signal_is_a_status(self):
        self.assertEqual(guest("kill -9 $$").status, 128 + 9)

    def test_timeout(self):
        self.assertEqual(guest("sleep 1000", "--timeout", "5").status, 124)

    def test_panic(self):
        result = guest("echo panic > #debug/ctl")
        self.assertEqual(result.status, 134, result)
        self.assertIn("asked for by #debug/ctl", result.stderr)
        self.assertRegex(result.stderr, r"sys_write\+0x[0-9a-f]+ \[kernel\]")

    def check_processors(self, number):
        result = guest("echo hello | cat", "--smp", str(number), log=False)
        self.assertEqual((result.status, result.stdout), (0, "hello\n"), result)
        self.assertIn(f"] {number} CPUs, ", result.stderr)

    def test_a_guest_that_ends_without_a_word(self):
        result = guest("echo never", "--cmdline", "poweroff")
        self.assertEqual((result.status, result.stdout), (125, ""), result)
        self.assertIn("ended without a word", result.stderr)

    def test_one_processor(self):
        self.check_processors(1)

    def test_many_processors(self):
        self.check_processors(16)

    def test_64_processors(self):
        self.check_processors(64)

    def test_little_memory(self):
        result = guest("ls / | wc -l", "--mem", "96M")
        self.assertEqual(result.status, 0, result)

    def test_an_end_without_memory(self):
        """The script's shell is killed while the kernel has all memory, and takes what the shell gave back, for good."""
        leak = """for n in 10000 1000 100 10 1; do while echo "leak debug_1024 $n" > '#debug/alloc'; do :; done; done 2> /dev/null"""
        for _ in range(5):
            result = guest(f"for cpu in 1 2 3 4; do while :; do {leak}; done & done\n{leak}\nkill -9 $$",
                           "--mem", "48M", "--timeout", "60", log=False)
            self.assertEqual(result.status, 128 + 9, result)

    def test_share(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "note"), "w") as file:
                file.write("from the host\n")
            result = guest("cat /host/note && echo back > /host/answer", "--share", folder)
            self.assertEqual((result.status, result.stdout), (0, "from the host\n"), result)
            with open(os.path.join(folder, "answer")) as file:
                self.assertEqual(file.read(), "back\n")

    def test_instructions_to_the_prompt(self):
        """From power-on, firmware and all: under --icount a tick of the time stamp counter is an instruction."""
        for smp in ("1", "4"):
            result = guest("true", "--icount", "--smp", smp, log=False)
            self.assertEqual(result.status, 0, result)
            [ticks] = re.findall(r"power off after (\d+) ticks", result.stderr)
            self.assertLess(int(ticks), INSTRUCTIONS_TO_PROMPT)


class Interactive(unittest.TestCase):
    def prompt(self, console):
        self.assertIn("\n# ", "\n" + console.read_until("# "))

    def test_a_session(self):
        with Console() as console:
            self.prompt(console)
            console.type("echo $((6 * 7))\r")
            self.assertIn("\n42\n", console.read_until("# "))
            # The line can be edited.
            console.type("echo wronx\x7fg\r")
            self.assertIn("\nwrong\n", console.read_until("# "))
            # ^C ends what runs in the foreground, and the shell goes on.
            console.type("sh -c 'echo running; sleep 1000'\r")
            console.read_until("\nrunning")
            console.type("\x03")
            console.read_until("# ")
            console.type("echo $?\r")
            self.assertIn("\n130\n", console.read_until("# "))
            # … and a line that is being typed.
            console.type("echo never\x03")
            self.assertNotIn("\nnever", console.read_until("# "))
            # ^D ends the input of a program, and on an empty line the shell; init starts another one.
            console.type("cat\rtwice\r\x04")
            self.assertIn("twice\ntwice\n", console.read_until("# "))
            console.type("x=1\r")
            console.read_until("# ")
            console.type("\x04")
            console.read_until("# ")
            console.type("echo x=$x.\r")
            self.assertIn("\nx=.\n", console.read_until("# "))
            # The commands of the README.
            console.type("echo start > #mem/kmemtrace/pipe; ls / | cat > /dev/null; echo stop > #mem/kmemtrace/pipe\r")
            console.read_until("# ")
            console.type("cat #mem/kmemtrace/pipe\r")
            self.assertRegex(console.read_until("# "), r"kmemtrace pipe state stopped (?s:.*) live 0 ")

    def test_without_a_terminal(self):
        run = subprocess.run([str(ROOT / "scripts/run"), "--kernel", str(BUILD / "stele.elf"), "--initrd", str(BUILD / "initrd.cpio")],
                             input="echo $((6 * 7))", capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"\b42\r?\n")

    def test_iso(self):
        subprocess.run([str(ROOT / "scripts/mkiso"), str(BUILD / "stele.elf"), str(BUILD / "initrd.cpio"), str(BUILD / "test.iso")],
                       check=True)
        with Console("--iso", str(BUILD / "test.iso")) as console:
            self.assertIn("booted by Multiboot2", console.read_until("# ", 120))
            console.type("echo $((6 * 7))\r")
            self.assertIn("\n42\n", console.read_until("# "))
