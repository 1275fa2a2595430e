"""Run-time checking of caches: a command switches checking on for a cache, #debug/crime misuses an object, and the kernel's log has the
report."""
import re

import pytest

from guest import guest


def reports_in(log):
    """Returns a list of the reports in the kernel's log, each a list of its lines."""
    reports = {}
    for number, line in re.findall(r"slab check #(\d+): ([^\r\n]*)", log):
        reports.setdefault(int(number), []).append(line)
    return [reports[number] for number in sorted(reports)]


def stack_after(report, start):
    """Returns the functions of the stack below the line that begins with `start`; None if there is no such line."""
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
    """Returns {cache: (CHECKED, REPORTS, QUARANT)} of the last slab_stats in the output."""
    return {words[0]: tuple(words[-3:]) for words in map(str.split, output.splitlines()) if len(words) > 10}


@pytest.fixture(scope="module")
def result():
    """One guest makes all errors that #debug/crime knows."""
    return guest("""
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


@pytest.fixture(scope="module")
def reports(result):
    return reports_in(result.stderr)


def test_the_system_lives_and_each_crime_has_a_report(result, reports):
    assert result.status == 0, result
    assert len(reports) == 5, result


def expect(report, crime, allocated, found, freed=None):
    assert report[0].startswith(crime), report
    assert stack_after(report, "allocated by pid ")[:2] == allocated, report
    assert (stack_after(report, "freed by pid ") or [])[:2] == (freed or []), report
    assert stack_after(report, found)[:1] == (["crime_free"] if "scan" not in found else ["run"]), report


def test_write_past_the_end(reports):
    for report, cache in (reports[0], "debug_64"), (reports[4], "debug_1024"):
        expect(report, "write past the end of an object, " + cache, ["crime_alloc", "debug_crime_write"],
               "found as it was freed by pid ")
        size = cache.partition("_")[2]
        assert f"byte +{size} has changed:" in report
        assert any(" 21 fa ed fe " in line for line in report), report


def test_double_free(reports):
    report = reports[1]
    assert report[0] == "double free, debug_64"
    assert stack_after(report, "allocated by pid ")[0] == "crime_alloc"
    assert stack_after(report, "freed by pid ")[:2] == ["crime_free", "crime_doublefree"]
    assert stack_after(report, "freed again by pid ")[:2] == ["crime_free_again", "crime_doublefree"]


def test_write_after_free(reports):
    report = reports[2]
    assert report[0] == "write to a free object, debug_64"
    assert stack_after(report, "allocated by pid ")[0] == "crime_alloc"
    assert stack_after(report, "freed by pid ")[:2] == ["crime_free", "crime_usefree"]
    assert "trace_command" in stack_after(report, "found in a scan by pid ")


def test_free_to_the_wrong_cache(reports):
    report = reports[3]
    assert report[0] == "free to the wrong cache, debug_64"
    assert "it is given to debug_1024" in report
    assert stack_after(report, "allocated by pid ")[0] == "crime_alloc"
    assert stack_after(report, "freed by pid ")[:2] == ["crime_free", "crime_wrongfree"]


def test_counts(result):
    columns = checked_column(result.stdout)
    assert columns["debug_64"] == ("on", "4", "3"), result
    assert columns["debug_1024"] == ("on", "1", "1"), result


def test_the_trace_has_what_is_live_and_no_more(result):
    # Four objects were allocated. One of them stays live, because it was freed to the wrong cache, and the trace does not count such a free.
    assert re.search("seen 4 recorded 4 dropped 0 filtered 0 freed 3 cleared 0 live 1 ", result.stdout)


def test_what_cannot_be_checked_says_so():
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
        assert expected in result.stderr


@pytest.mark.cpus(4)
def test_all_caches_on_and_off_while_the_system_works():
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
""", log=False)
    assert result.status == 0, result
    assert reports_in(result.stderr) == [], result
    columns = checked_column(result.stdout)
    assert (columns["chan"][0], columns["kmem_slab"][0], columns["page_4096"][0]) == ("on", "never", "never")


@pytest.mark.cpus(4)
def test_all_caches_from_boot_on():
    result = guest("ls -l / | cat; proctest; cat #mem/slab_stats", "--cmdline", "check=all", log=False)
    assert result.status == 0, result
    assert reports_in(result.stderr) == [], result
    columns = checked_column(result.stdout)
    assert (columns["process"][0], columns["kmem_cache"][0], columns["kmalloc_64"][0]) == ("on", "on", "on")


def test_a_report_panics_if_the_command_line_says_so():
    result = guest("echo 'overrun debug_64' > #debug/crime", "--cmdline", "check=debug_64 check_panic", log=False)
    assert result.status == 134 and "write past the end of an object, debug_64: see the report above" in result.stderr, result


def test_named_caches_from_boot_on():
    result = guest("cat #mem/slab_stats", "--cmdline", "check=chan,debug_64")
    columns = checked_column(result.stdout)
    assert [columns[name][0] for name in ("chan", "debug_64", "debug_1024")] == ["on", "on", "off"], result
