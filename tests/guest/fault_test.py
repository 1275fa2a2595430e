"""Allocations that fail on purpose: `failnext`, and every system call with each of its allocations failing in turn."""
import tempfile
import unittest

from guest import dumps_in, guest


class FailNext(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = guest("""
section() { echo "== $1"; echo "== $1" >&2; }
try() { printf "$1" > '#debug/alloc' && echo fine; }
section next; try 'failnext 1\\nchurn debug_64 10\\n'; try 'churn debug_64 10\\n'
section after; try 'failnext 1 after=7\\nchurn debug_64 10\\n'
section zero; try 'failnext 5\\nfailnext 0\\nchurn debug_64 10\\n'
section others; sh -c 'echo failnext 1000000 > #debug/alloc; exit 0'; try 'churn debug_64 10\\n'
section traced; echo start > #mem/kmemtrace/debug_64; try 'failnext 1 after=5\\nchurn debug_64 10\\n'
cat #mem/kmemtrace/debug_64; printf 'stop\\nreset\\n' > #mem/kmemtrace/debug_64; grep -w debug_64 #mem/slab_stats
section bad
for text in failnext 'failnext x' 'failnext -1' 'failnext 1 2' 'failnext 1 after=' 'failnext 1 after=x' 'failnext 1 after=1 x' 'failnext 99999999999'; do
  try "$text\\n"
done
try 'failnext 1\\nnonsense\\n'; try 'churn debug_64 10\\n'
""")
        cls.out, cls.err = ({name: body for name, _, body in (part.partition("\n") for part in text.split("== ")[1:])}
                            for text in (cls.result.stdout, cls.result.stderr))

    def test_the_next_one_fails_and_no_other(self):
        self.assertIn("out of memory after 0 of 10", self.err["next"], self.result)
        self.assertEqual(self.out["next"], "fine\n")

    def test_after_some(self):
        self.assertIn("out of memory after 7 of 10", self.err["after"], self.result)

    def test_zero_ends_it(self):
        self.assertEqual((self.out["zero"], self.err["zero"]), ("fine\n", ""), self.result)

    def test_other_processes_are_not_hit(self):
        self.assertEqual(self.out["others"], "fine\n", self.result)
        self.assertIn(self.err["others"], ("", "Killed\n"), self.result)  # the other process, at a page fault

    def test_what_fails_is_counted_and_not_recorded(self):
        [dump] = dumps_in(self.out["traced"])
        self.assertEqual((dump.counters["seen"], dump.counters["freed"], dump.counters["live"]), (5, 5, 0), self.result)
        self.assertEqual(self.out["traced"].splitlines()[-1].split()[11], "3")  # column FAILED: next, after, traced

    def test_bad_orders(self):
        self.assertEqual(self.out["bad"], "fine\n", self.result)
        self.assertEqual(self.err["bad"].count("Invalid argument"), 9, self.result)


class EachAllocation(unittest.TestCase):
    def check(self, *words, options=()):
        result = guest("failtest " + " ".join(words), "--timeout", "300", *options)
        self.assertRegex(result.stdout, r"\A\d+ operations, 0 failures\n\Z", result)
        self.assertEqual((result.status, result.stderr), (0, ""), result)

    def test_every_system_call_survives_each_failure(self):
        self.check()

    def test_the_host_s_folder_too(self):
        # One CPU: with several what failtest sees of the page arena sways by a slab of it, in both directions.
        with tempfile.TemporaryDirectory() as folder:
            self.check("host", options=("--share", folder, "--smp", "1"))


if __name__ == "__main__":
    unittest.main()
