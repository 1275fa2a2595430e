"""Files as programs see them: the shared folder of the host, files in memory, the namespace, job control on the console."""
import hashlib
import os
import pathlib
import tempfile
import unittest

from console import Console
from guest import guest, live_counts

SHARE = r"""
cat /host/note; md5sum < /host/blob; ls /host/many | wc -l
echo one > /host/new; echo two >> /host/new; mv /host/new /host/newer; cat /host/newer
mkdir /host/dir; echo x > /host/dir/x; rmdir /host/dir 2>/dev/null || echo not empty
rm /host/dir/x; rmdir /host/dir; test -e /host/dir || echo gone
cp /host/blob /host/copy; chmod 640 /host/copy; stat -c %s,%a /host/copy 2>/dev/null || ls -l /host/copy | cut -c1-10
: > /host/emptied
cat /host/missing 2>/dev/null || echo missing; echo x 2>/dev/null > /host/note/x || echo no folder
for i in 1 2 3 4 5 6 7 8; do md5sum < /host/blob & done; wait
rm -r /host/many; ls /host
"""

NAMES = r"""
cd /tmp; mkdir -p a/b; cd a/b; pwd; cd ../..; pwd; cd /proc/self/..; pwd
echo x > /tmp/a/b/../../top; cat /tmp/./a//../top
cat < /dev/null; head -c 5 /dev/zero | wc -c; ls /dev | sort | tr '\n' ' '; echo
echo x 2>&1 > /newfile; mkdir /newdir 2>&1; rm /bin/cat 2>&1; ls /bin/cat/x 2>&1; cat '#nosuch/x' 2>&1
mv /tmp/a /tmp/a/b 2>&1; rmdir /tmp/a 2>&1; mv /tmp/top /proc/top 2>&1
"""

# What makes and takes away one of each kind of thing, with mistakes; the counts before and after are compared.
BALANCE = r"""
work() {
  mkdir /tmp/d; echo text > /tmp/d/f; cp /tmp/d/f /tmp/d/g; mv /tmp/d/g /tmp/d/h; ls -lR /tmp; rm -r /tmp/d
  ls -l /host /proc /dev; cp /host/note /host/n; cat /host/n; rm /host/n; mkdir /host/e; rmdir /host/e
  cat /host/x /tmp/x /x '#nosuch/x' /bin/cat/x; echo x > /x; mkdir /tmp; rmdir /dev /tmp /host; mv /tmp/x /tmp/y; mv /bin/cat /proc
  seq 1 2000 | sort | tail -1; yes | head -5; cat /proc/self/status /proc/1/cmdline; sleep 0 & wait
} > /dev/null 2>&1
work; work; echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat
for i in 1 2 3 4; do work; done; echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat
"""
COUNTED = ("chan", "fd_table", "pipe", "pipe_buffer", "tmp_node", "tmp_page", "p9_fid", "kmalloc_16", "kmalloc_32", "kmalloc_256")


class Share(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        (self.folder / "note").write_text("from the host\n")
        (self.folder / "emptied").write_text("text\n")
        self.blob = os.urandom(300_000)
        (self.folder / "blob").write_bytes(self.blob)
        (self.folder / "many").mkdir()
        for i in range(300):
            (self.folder / "many" / f"a file with a rather long name, number {i}").write_text("x")

    def test_a_folder_of_the_host(self):
        result = guest(SHARE, "--share", str(self.folder))
        digest = hashlib.md5(self.blob).hexdigest() + "  -"
        lines = result.stdout.splitlines()
        self.assertEqual(lines[:3], ["from the host", digest, "300"], result)
        self.assertEqual(lines[3:7], ["one", "two", "not empty", "gone"], result)
        self.assertIn(lines[7], ("300000,640", "-rw-r-----"), result)
        self.assertEqual(lines[8:10], ["missing", "no folder"], result)
        self.assertEqual(lines[10:18], [digest] * 8, result)
        self.assertEqual(lines[18:], ["blob", "copy", "emptied", "newer", "note"], result)
        self.assertEqual((self.folder / "copy").read_bytes(), self.blob)
        self.assertEqual((self.folder / "newer").read_text(), "one\ntwo\n")
        self.assertEqual((self.folder / "emptied").read_text(), "")

    def test_nothing_is_left_behind(self):
        result = guest(BALANCE, "--share", str(self.folder))
        before, after = live_counts(result.stdout)
        for cache in COUNTED:
            self.assertEqual(before[cache], after[cache], f"{cache}\n{result}")

    def test_without_a_share(self):
        result = guest("ls /host | wc -l; ls '#p9/' 2>&1 | grep -c 'no such device'")
        self.assertEqual(result.stdout.split(), ["0", "1"], result)


class Names(unittest.TestCase):
    def test_paths(self):
        lines = guest(NAMES).stdout.splitlines()
        self.assertEqual(lines[:6], ["/tmp/a/b", "/tmp", "/proc", "x", "5",
                                     "cmdline cons console null power random tty urandom zero "], lines)
        expected = ["read-only", "read-only", "read-only", "Not a directory", "#nosuch: no such device",
                    "cannot be moved into itself", "not empty", "nothing can be renamed|no files|Cross-device|link across"]
        for line, pattern in zip(lines[6:], expected, strict=True):
            self.assertRegex(line, f"(?i){pattern}", lines)


class Tmp(unittest.TestCase):
    def test_full_tmp_can_be_emptied(self):
        """Enough memory is left to run rm, and what was written is there again."""
        fill = "dd if=/dev/zero of=/tmp/big bs=64k count=2000 2>&1 | grep -c 'No space left'; rm /tmp/big"
        result = guest(f"{fill}; {fill}; ls /tmp; dd if=/dev/zero of=/tmp/x bs=64k count=300 2>/dev/null && echo room",
                       "--mem", "64M")
        self.assertEqual((result.status, result.stdout), (0, "1\n1\nroom\n"), result)


class JobControl(unittest.TestCase):
    def test_stop_and_go_on(self):
        with Console() as console:
            console.read_until("# ")
            console.type("sh -c 'echo running; sleep 1000'\r")
            console.read_until("\nrunning")
            console.type("\x1a")
            self.assertIn("Stopped", console.read_until("# "))
            console.type("bg; kill %1; wait; jobs\r")
            self.assertIn("Terminated", console.read_until("# "))
            # A job in the background that reads the console waits until it is in the foreground.
            console.type("cat &\r")
            console.read_until("# ")
            console.type("echo the shell reads\r")
            self.assertIn("\nthe shell reads\n", console.read_until("# "))
            console.type("fg\r")
            console.read_until("cat\r")
            console.type("twice\r\x04")
            self.assertIn("twice\ntwice\n", console.read_until("# "))
            # ^U takes the line back.
            console.type("echo wrong\x15echo right\r")
            self.assertIn("\nright\n", console.read_until("# "))
            # A pipeline is one job.
            console.type("{ echo running >&2; yes; } | cat > /dev/null\r")
            console.read_until("\nrunning")
            console.type("\x03")
            console.read_until("# ")
            console.type("ps | grep -c '[y]es'\r")
            self.assertIn("\n0\n", console.read_until("# "))


if __name__ == "__main__":
    unittest.main()
