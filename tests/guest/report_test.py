"""Tests scripts/report on files from a guest: two dumps that differ by ten leaked objects, the output of memleak for these leaks, and the output of
stackcount for the leaking function."""
import os
import re

import pytest

from guest import BUILD, ROOT, checked, tool
from stele.browser import Browser

pytestmark = [pytest.mark.cpus(1), pytest.mark.shares]
SIZE = 192  # bytes of an object that leakdemo leaks


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Returns the folder with the files that the guest wrote. The dumps `first` and `later` must differ only in the leaks. Their paths have the same
    length, because the kernel stores the paths of open files. An `if` command and leakdemo run once before the dumps, because their first use loads
    further pages of the shell into the page cache. `settle` frees the pages of programs that have ended. The arena `page` is not traced: if the shell
    writes to a page after a fork, it gets a new page only if the child still has the old one, which depends on the time."""
    folder = tmp_path_factory.mktemp("written")
    checked("""
if true; then leakdemo clean; echo settle > '#mem/kmemtrace/ctl'; cat '#mem/tracedump' > /dev/null; fi
echo start > '#mem/kmemtrace/ctl'; printf 'stop\\nreset' > '#mem/kmemtrace/page'
leakdemo leak 3; echo settle > '#mem/kmemtrace/ctl'
cat '#mem/tracedump' > /host/first
if true; then leakdemo leak 10; echo settle > '#mem/kmemtrace/ctl'; cat '#mem/tracedump' > /host/later; fi
cat '#mem/kmemtrace/leaky' > /host/text
memleak -o 0 1 1 > /host/memleak
memleak -o 0 -f 1 1 > /host/memleak.folded 2> /dev/null
stackcount -D 1 leaky_open > /host/stackcount & until grep -q Tracing /host/stackcount 2> /dev/null; do :; done
leakdemo leak 7
wait
""", "--share", str(folder))
    return folder


def test_ten_leaks_apart(written):
    """The difference contains only the ten leaked objects, although the user stacks of the shell's objects differ between the two dumps."""
    result = tool("report", "--base", written / "first", written / "later")
    assert (result.status, result.stderr) == (0, ""), result
    assert result.stdout.splitlines()[1] == f"+{10 * SIZE} bytes in +10 objects from 1 stacks of 1 sources"
    assert re.search(rf"^\+{10 * SIZE} bytes in \+10 objects of leaky from stack\n    leaky_open  (kern/drivers/dev/debug\.cc):(\d+)\n", result.stdout, re.M)
    place = re.search(r"^    leaky_open  (\S+):(\d+)\n        (.*)$", result.stdout, re.M)
    assert "kmem_cache_alloc" in place[3]
    assert place[3] == (ROOT / place[1]).read_text().splitlines()[int(place[2]) - 1].strip()
    assert re.search(r"^    called from /bin/leakdemo, .*\n(.*\n)*?        use  user/bin/leakdemo/leakdemo\.c:\d+$", result.stdout, re.M)


def test_ten_leaks_apart_folded(written):
    result = tool("report", "--base", written / "first", written / "later", "--format", "folded")
    assert (result.status, result.stderr) == (0, ""), result
    assert re.fullmatch(rf"_start;__stele_start;main;use;open;.*;sys_open;.*;leaky_open;\[leaky\] {10 * SIZE}\n", result.stdout)
    result = tool("report", "--base", written / "first", written / "later", "--format", "folded", "--measure", "objects")
    assert result.stdout.endswith(";leaky_open;[leaky] 10\n") and result.stdout.count("\n") == 1


def test_ten_leaks_apart_for_pprof(written, tmp_path):
    assert tool("report", "--base", written / "first", written / "later", "--format", "pprof", "-o", tmp_path / "ten.pb.gz").status == 0
    lines = tool("report", tmp_path / "ten.pb.gz").stdout.splitlines()
    assert lines[1] == f"{10 * SIZE} bytes in 10 objects from 1 stacks of 1 sources", lines
    assert lines.count(f"{10 * SIZE} bytes in 10 objects of leaky from stack") == 1, lines


@pytest.mark.long  # a browser is a large dependency
def test_ten_leaks_apart_in_the_page(written, tmp_path):
    assert tool("report", "--base", written / "first", written / "later", "--format", "html", "-o", tmp_path / "ten.html").status == 0
    with Browser() as browser:
        browser.open(tmp_path / "ten.html")
        assert browser.js("document.querySelector('#count').textContent") == "1 stack"
        assert browser.js("[...document.querySelector('#rows tr[data-stack]').cells].slice(0, 2).map(cell => cell.textContent)") == [f"+{10 * SIZE:,}", "+10"]


def test_ten_leaks_fewer(written):
    result = tool("report", "--base", written / "later", written / "first", "--format", "folded")
    assert (result.status, result.stdout) == (0, "")
    assert result.stderr == f"report: {10 * SIZE} bytes less are not in the folded stacks, which have no negative numbers\n"


@pytest.mark.parametrize("by, name", (("cache", "leaky"), ("function", "leaky_open")))
def test_tables_of_the_difference(written, by, name):
    result = tool("report", "--base", written / "first", written / "later", "--by", by)
    first = result.stdout.partition("\n\n")[2].splitlines()[1].split()
    assert (first[:2], first[-1]) == ([f"+{10 * SIZE}", "+10"], name), result


@pytest.mark.parametrize("name", ("later", "text", "memleak", "memleak.folded"))
def test_all_say_the_same_of_the_leak(written, name):
    result = tool("report", "--kernel", BUILD / "stele.elf", "--format", "folded", written / name)
    assert result.status == 0, result
    of_the_leak = [line for line in result.stdout.splitlines() if ";leaky_open;" in line]
    assert sum(int(line.rpartition(" ")[2]) for line in of_the_leak) == 13 * SIZE


def test_calls(written):
    result = tool("report", written / "stackcount")
    assert re.search(r"^7 calls of leaky_open from stack\n    leaky_open\n(.*\n)*?    system_call_entry\n    by pid \d+ leakdemo\n"
                     r"    called from a program, 7 calls\n        open\n        use\n        main\n", result.stdout, re.M), result


def test_without_the_elf_files_there_are_addresses(written, tmp_path):
    run = tool("report", written / "later", env={**os.environ, "STELE_BUILD": str(tmp_path)})
    assert run.status == 0 and f"{13 * SIZE} bytes in 13 objects of leaky from stack\n    0xffffffff8" in run.stdout
    assert "its functions have no names (--kernel)" in run.stdout.partition("\n\n")[0]
