"""Tests that the debug kernel notices each translation that it does not invalidate (kern/arch/x86_64/tlb_check.h). QEMU invalidates more
than it must, so without this check most of these bugs would show on a real processor only."""
import re

import pytest

from guest import tool

MAPS = "mkdir /tmp/f; maptest /tmp/f"
# On a busy host, threads seldom run at the same time. So the threads run until the bug ends the guest.
THREADS = "stress 100 7 4 threads"
# For each planted bug: number of CPUs, and a script that reaches the bug, or the name of a kernel test that does.
BUGS = {
    "map": (1, "(:)"),
    "unmap": (1, MAPS),
    "write_protect": (1, "(:)"),
    "protect": (1, MAPS),
    "clean": (1, "mkdir /host/f; maptest /host/f"),
    "table": (1, MAPS),
    "table_range": (4, "page_cache_table_of_a_cut_file_is_flushed"),
    "flush": (4, THREADS),
    "forget_pages": (4, THREADS),
    "forget_all": (4, THREADS),
    "kernel": (4, "unmapping_is_seen_by_every_cpu"),
    "text": (1, "stackcount -K -D 1 pipe_create"),
}


def run(bugs, cpus, folder, what):
    result = tool("guest", "--no-build", "--variant", "debug", "--smp", str(cpus), "--share", folder, "--port", "tests", "--cmdline", f"break={bugs}",
                  *([f"--ktest={what}"] if what.isidentifier() else ["-c", what]))
    return result.status, result.stderr


def check_noticed(status, log):
    assert status == 134, log
    assert re.search(r"kernel panic: (a page is freed|a change of page tables ends), but CPUs [1-9a-f][0-9a-f]* may still use a translation of", log), log


@pytest.mark.parametrize("bug", [pytest.param(bug, marks=pytest.mark.cpus(cpus)) for bug, (cpus, _) in BUGS.items()])
def test_a_translation_that_is_not_invalidated_is_noticed(bug, tmp_path):
    cpus, what = BUGS[bug]
    check_noticed(*run(f"tlb_{bug}", cpus, tmp_path, what))


@pytest.mark.long
@pytest.mark.cpus(4)
def test_a_thread_may_come_to_another_cpu_in_the_middle_of_a_change(tmp_path):
    """Each change sleeps before its flush, so that the thread often goes on on another CPU, where another thread of the process ran. The scheduler
    must activate the address space there again."""
    status, log = run("tlb_sleep", 4, tmp_path, "stress 2 7 4 threads")
    assert status == 0, log
    check_noticed(*run("tlb_sleep,tlb_switch", 4, tmp_path, "stress 100 7 4 threads"))
