"""make leaktest: what leaks is found and named, what does not leak is not accused."""
import os
import subprocess
import unittest

from guest import BUILD, ROOT, leaktest


class LeakTest(unittest.TestCase):
    def check_clean(self, command):
        result = leaktest(command)
        self.assertEqual(result.status, 0, result)
        self.assertTrue(result.stdout.endswith("\nno leak\n"), result)

    def test_leak_is_found_and_named(self):
        result = leaktest("leakdemo leak 3")
        self.assertEqual(result.status, 1, result)
        self.assertRegex(result.stdout, r"LEAKED: 2880 bytes from 1 stacks")
        self.assertRegex(result.stdout, r"2880 bytes in 15 allocations of leaky from stack\n(.*\n)*?"
                                        r" +leaky_open\+0x[0-9a-f]+  kern/drivers/dev/debug\.cc:\d+\n")
        self.assertEqual((BUILD / "leaktest" / "report.txt").read_text(), result.stdout)

    def test_the_line_named_is_the_allocation(self):
        result = leaktest("leakdemo leak 1", "--repeat", "2")
        place = next(line.split()[-1] for line in result.stdout.splitlines() if "leaky_open" in line)
        file, _, line = place.rpartition(":")
        self.assertIn("kmem_cache_alloc", (ROOT / file).read_text().splitlines()[int(line) - 1])

    def test_clean(self):
        self.check_clean("leakdemo clean")

    def test_ls(self):
        self.check_clean("ls /")

    def test_pipeline(self):
        self.check_clean("ls -l / | grep bin | wc -l")

    def test_loop_that_forks(self):
        self.check_clean("i=0; while [ $i -lt 10 ]; do (exit 0); cat /etc/profile > /tmp/x; i=$((i + 1)); done; rm /tmp/x")

    def test_path_errors(self):
        self.check_clean("ls /none /bin/none/x '#none' '#mem/none' /etc/profile/x; true")

    def test_killed_and_failed_programs(self):
        self.check_clean("sleep 100 & kill $!; wait; none-such; sh -c 'kill -9 $$'; true")

    def test_files(self):
        self.check_clean("mkdir /tmp/d && echo x > /tmp/d/a && cp /tmp/d/a /tmp/d/b && mv /tmp/d/b /tmp/d/c && rm -r /tmp/d")

    def test_what_happens_once_is_not_a_leak(self):
        """A file that stays is there once, not once for each run."""
        result = leaktest("[ -e /tmp/third ] && exit; [ -e /tmp/second ] && : > /tmp/third; : > /tmp/second")
        self.assertEqual(result.status, 0, result)
        self.assertIn("not repeated (not counted)", result.stdout)

    def test_what_stays_from_each_run_is_a_leak(self):
        result = leaktest(": > /tmp/file.$$")
        self.assertEqual(result.status, 1, result)
        self.assertIn(" of tmp_node from stack", result.stdout)

    def test_status_of_the_command_is_shown_not_judged(self):
        result = leaktest("exit 7", "--repeat", "2")
        self.assertEqual(result.status, 0, result)
        self.assertIn("exit status: 7", result.stdout)

    def test_what_is_not_known_is_not_clean(self):
        """Allocations that never end: the caches do not come to rest."""
        result = leaktest('sh -c "while :; do echo x > /tmp/y; rm /tmp/y; done" & true', "--repeat", "1")
        self.assertIn(result.status, (1, 2), result)

    def make(self, command):
        environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        return subprocess.run(["make", "-s", "-C", str(ROOT), f"BASE={os.path.relpath(BUILD, ROOT)}", "leaktest",
                               f"CMD={command}"], capture_output=True, text=True, env=environment, check=False)

    def test_make(self):
        run = self.make("leakdemo leak 3; echo 'done'")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("leaky_open", run.stdout)

    def test_make_gives_the_command_as_it_was_typed(self):
        """What make would take for variables of its own, quotes, and more than one line."""
        command = """i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done\necho "<$i> '$(echo a b)' $$" | sed 's/[0-9]*$/pid/'; exit $i"""
        run = self.make(command)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("<3> 'a b' pid\n", run.stderr)
        self.assertIn("exit status: 3\n", run.stdout)

    def test_a_kernel_that_is_broken(self):
        """A pipe's buffer is not freed on close (kern/include/core/planted.h)."""
        result = leaktest("ls / | cat", "--variant", "break", "--cmdline", "break=pipe_close")
        self.assertEqual(result.status, 1, result)
        self.assertRegex(result.stdout, r"of pipe_buffer from stack\n(.*\n)*? +\w*pipe\w*\+0x[0-9a-f]+  kern/drivers/dev/pipe\.cc:\d+\n")
