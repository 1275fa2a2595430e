"""Run-time checking as a person uses it: a word to a cache, a crime, and what the log says."""
import re
import unittest

from guest import guest


def reports_in(log):
    """{number: lines} of the reports on the kernel's log."""
    reports = {}
    for number, line in re.findall(r"slab check #(\d+): ([^\r\n]*)", log):
        reports.setdefault(int(number), []).append(line)
    return [reports[number] for number in sorted(reports)]


def stack_after(report, start):
    """The functions of the stack under the line that begins with `start`."""
    lines = iter(report)
    for line in lines:
        if line.startswith(start):
            break
    else:
        return None
    functions = []
    for line in lines:
        if not line.startswith("    "):
            break
        functions.append(line.strip().partition("+")[0])
    return functions


def checked_column(output):
    """{cache: (CHECKED, REPORTS, QUARANT)} of the last slab_stats in what was printed."""
    return {words[0]: tuple(words[-3:]) for words in map(str.split, output.splitlines()) if len(words) > 10}


class Crimes(unittest.TestCase):
    """One boot for all."""

    @classmethod
    def setUpClass(cls):
        cls.result = guest("""
echo check > #mem/kmemtrace/debug_64
echo check > #mem/kmemtrace/debug_1024
echo start > #mem/kmemtrace/debug_64
echo 'overrun debug_64
doublefree debug_64
usefree debug_64' > #debug/crime
echo scan > #mem/kmemtrace/debug_64
echo 'wrongfree debug_64 debug_1024' > #debug/crime
echo 'overrun debug_1024' > #debug/crime
echo stop > #mem/kmemtrace/debug_64
cat #mem/kmemtrace/debug_64
cat #mem/slab_stats
""", log=False)
        cls.reports = reports_in(cls.result.stderr)

    def test_the_system_lives_and_each_crime_has_a_report(self):
        self.assertEqual(self.result.status, 0, self.result)
        self.assertEqual(len(self.reports), 5, self.result)

    def expect(self, report, crime, allocated, found, freed=None):
        self.assertTrue(report[0].startswith(crime), report)
        self.assertEqual(stack_after(report, "allocated by pid ")[:2], allocated, report)
        self.assertEqual((stack_after(report, "freed by pid ") or [])[:2], freed or [], report)
        self.assertEqual(stack_after(report, found)[:1], ["crime_free"] if "scan" not in found else ["run"], report)

    def test_write_past_the_end(self):
        for report, cache in (self.reports[0], "debug_64"), (self.reports[4], "debug_1024"):
            self.expect(report, "write past the end of an object, " + cache, ["crime_alloc", "debug_crime_write"],
                        "found as it was freed by pid ")
            size = cache.partition("_")[2]
            self.assertIn(f"byte +{size} is not what was left there:", report)
            self.assertTrue(any(" 21 fa ed fe " in line for line in report), report)

    def test_double_free(self):
        report = self.reports[1]
        self.assertEqual(report[0], "double free, debug_64")
        self.assertEqual(stack_after(report, "allocated by pid ")[0], "crime_alloc")
        self.assertEqual(stack_after(report, "freed by pid ")[:2], ["crime_free", "crime_doublefree"])
        self.assertEqual(stack_after(report, "freed again by pid ")[:2], ["crime_free_again", "crime_doublefree"])

    def test_write_after_free(self):
        report = self.reports[2]
        self.assertEqual(report[0], "write to a free object, debug_64")
        self.assertEqual(stack_after(report, "allocated by pid ")[0], "crime_alloc")
        self.assertEqual(stack_after(report, "freed by pid ")[:2], ["crime_free", "crime_usefree"])
        self.assertIn("trace_command", stack_after(report, "found in a scan by pid "))

    def test_free_to_the_wrong_cache(self):
        report = self.reports[3]
        self.assertEqual(report[0], "free to the wrong cache, debug_64")
        self.assertIn("it is given to debug_1024", report)
        self.assertEqual(stack_after(report, "allocated by pid ")[0], "crime_alloc")
        self.assertEqual(stack_after(report, "freed by pid ")[:2], ["crime_free", "crime_wrongfree"])

    def test_counts(self):
        columns = checked_column(self.result.stdout)
        self.assertEqual(columns["debug_64"], ("on", "4", "3"), self.result)
        self.assertEqual(columns["debug_1024"], ("on", "1", "1"), self.result)

    def test_the_trace_has_what_is_live_and_no_more(self):
        # Four objects were allocated; one stays, since it went to the wrong cache. A refused free is none.
        self.assertRegex(self.result.stdout, "seen 4 recorded 4 dropped 0 filtered 0 freed 3 cleared 0 live 1 ")


class Switching(unittest.TestCase):
    def test_what_cannot_be_checked_says_so(self):
        result = guest("""
echo check > #mem/kmemtrace/page_4096
echo check > #mem/kmemtrace/base
echo check > #mem/kmemtrace/kmem_slab
echo 'overrun debug_64' > #debug/crime
echo 'overrun' > #debug/crime
echo 'overrun nothing' > #debug/crime
echo 'wrongfree debug_64 debug_64' > #debug/crime
""")
        for expected in ("Operation not permitted", "base cannot be checked: it is an arena", "debug_64 is not checked: echo check > #mem/kmemtrace/debug_64 first",
                         "expected overrun CACHE, usefree CACHE", 'no cache is called "nothing"',
                         "debug_64 is the right cache for its own objects"):
            self.assertIn(expected, result.stderr)

    def test_all_caches_on_and_off_while_the_system_works(self):
        result = guest("""
churn() { for i in 1 2 3 4 5; do ls -l / | cat | wc -l; echo $i > /tmp/file; cat /tmp/file; rm /tmp/file; done; }
churn > /tmp/0
for i in 1 2 3; do
  echo check > #mem/kmemtrace/ctl
  churn > /tmp/1; cmp /tmp/0 /tmp/1
  echo scan > #mem/kmemtrace/ctl
  cat #mem/slab_stats
  echo nocheck > #mem/kmemtrace/ctl
  churn > /tmp/1; cmp /tmp/0 /tmp/1
done
""", "--smp", "4", log=False)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(reports_in(result.stderr), [], result)
        columns = checked_column(result.stdout)
        self.assertEqual((columns["chan"][0], columns["kmem_slab"][0], columns["page_4096"][0]), ("on", "never", "never"))

    def test_all_caches_from_boot_on(self):
        result = guest("ls -l / | cat; proctest; cat #mem/slab_stats", "--smp", "4", "--cmdline", "check=all", log=False)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(reports_in(result.stderr), [], result)
        columns = checked_column(result.stdout)
        self.assertEqual((columns["process"][0], columns["kmem_cache"][0], columns["kmalloc_64"][0]), ("on", "on", "on"))

    def test_named_caches_from_boot_on(self):
        result = guest("cat #mem/slab_stats", "--cmdline", "check=chan,debug_64")
        columns = checked_column(result.stdout)
        self.assertEqual([columns[name][0] for name in ("chan", "debug_64", "debug_1024")], ["on", "on", "off"], result)


if __name__ == "__main__":
    unittest.main()
