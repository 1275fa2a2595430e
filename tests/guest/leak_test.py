"""make leaktest: leaks are found and named, and clean commands are not accused."""
import json
import re
import subprocess
from xml.etree import ElementTree

import pytest

from debugged import gdb_on
from guest import BUILD, ROOT, leaktest, make, tool

pytestmark = pytest.mark.cpus(1)


def quick(command, *options):
    """Runs the leak test with --quick: it judges only by the trace, without untraced runs."""
    return leaktest(command, "--quick", *options)


def check_clean(command, *options):
    result = leaktest(command, *(options or ["--quick"]))
    assert result.status == 0, result
    assert result.stdout.startswith("CLEAN\n"), result
    return result


@pytest.mark.cpus(4)
def test_leak_is_found_and_named(tmp_path):
    report = tmp_path / "report.txt"
    result = leaktest("leakdemo leak 3", "--runs", "16", "--report", report, lost_at=True)
    assert result.status == 1, result
    assert report.read_text() == result.stdout
    assert "chan_cache.destroy(chan);" in report.with_suffix(".xml").read_text()
    assert re.search(r"LEAKED: \d+ bytes from 1 stacks", result.stdout)
    assert re.search(r"^where it was lost, in a recorded run of the command on one CPU:\n\n"
                     r"LOST: 576 bytes in 3 objects of leaky; about the newest, 0x[0-9a-f]{16}:\n"
                     r"  lost at instruction \d+ of the run, by task \d+ leakdemo, pid \d+\n"
                     r"    Chan::destroy\+0x[0-9a-f]+  kern/ns/chan\.cc:\d+\n"
                     r"        chan_cache\.destroy\(chan\);\n(    .*\n)*?"
                     r"    the last pointer was in Chan 0x[0-9a-f]{16} \.state\n", result.stdout, re.M), result
    [lost] = json.loads(report.with_suffix(".json").read_text())["commands"][0]["lost_at"]
    assert (lost["name"], lost["objects"], lost["of"], lost["stack"][0], lost["last"].split()[0]) == ("leaky", 3, "pointer", "Chan::destroy", "Chan"), lost
    assert f"lost at instruction {lost['instructions'][-1]} of" in result.stdout and lost["lines"][0] in result.stdout, lost
    run, moment = re.search(r"^    in gdb: make gdb REPLAY=(\S+) AT=(\d+)$", result.stdout, re.M).groups()
    assert "Chan::destroy" in gdb_on(("--replay", run, "--at", moment), "backtrace")["backtrace"]
    assert re.search(r"^LEAKED \(by counts\): \d+ objects, \d+ bytes of leaky in \d+ untraced runs \(7 looks\)\n    from stacks above$", result.stdout, re.M), result
    assert re.search(r"\d+ bytes in \d+ allocations of leaky from stack\n(.*\n)*?"
                                    r" +leaky_open\+0x[0-9a-f]+  kern/drivers/dev/debug\.cc:\d+\n", result.stdout)


def test_a_leak_that_the_recorded_run_does_not_have():
    """Only the second run of the command, and the ones after it, lose something."""
    result = leaktest("test -e /tmp/again && leakdemo leak 1; : > /tmp/again", "--runs", "8", lost_at=True)
    assert (result.status, result.stdout.endswith("\nwhere it was lost, in a recorded run of the command on one CPU:\n"
                                                  "    it is not known: this run has lost nothing of it\n")) == (1, True), result


def test_how_to_see_where_it_was_lost(tmp_path):
    """The quick leak test only names the command."""
    result = quick("leakdemo leak 1", "--cmdline", "trace=leaky")
    assert result.stderr.endswith("leaktest: scripts/lost-at --port tests --cmdline trace=leaky 'leakdemo leak 1' finds the instruction that lost it\n"), result
    shared = quick("leakdemo leak 1", "--share", str(tmp_path))
    assert shared.status == 1 and "lost-at" not in shared.stderr, shared


def test_the_line_named_is_the_allocation():
    result = quick("leakdemo leak 1", "--repeat", "2")
    place = next(line.split()[-1] for line in result.stdout.splitlines() if "leaky_open" in line)
    file, _, line = place.rpartition(":")
    assert "kmem_cache_alloc" in (ROOT / file).read_text().splitlines()[int(line) - 1]


def test_clean():
    """The report has no objects or references of the leak test's own shell."""
    assert re.fullmatch(r"CLEAN\nleak test of: leakdemo clean\nruns: .*; exit status: 0\ntraced: .*\n", check_clean("leakdemo clean").stdout)


def test_a_mistyped_command_is_not_clean():
    result = quick("nosuchcommand", "--repeat", "2")
    assert result.status == 2, result
    assert result.stdout.startswith("UNKNOWN\nleak test of: nosuchcommand\nwhat is not known:\n    the command was not found (status 127)\n\n"), result
    assert quick("leakdemo leak 1; nosuchcommand", "--repeat", "2").status == 1


@pytest.mark.parametrize("command", [
    "ls /", "mkdir /tmp/d && echo x > /tmp/d/a && cp /tmp/d/a /tmp/d/b && mv /tmp/d/b /tmp/d/c && rm -r /tmp/d",
    "echo 'cache fresh 100 3' > '#debug/alloc'; echo 'destroy fresh' > '#debug/alloc'", "ls /none /bin/none/x '#none' '#mem/none' /etc/profile/x; true",
    pytest.param("i=0; while [ $i -lt 10 ]; do (exit 0); cat /etc/profile > /tmp/x; i=$((i + 1)); done; rm /tmp/x", marks=pytest.mark.cpus(4)),
    pytest.param("sleep 100 & kill $!; wait; none-such; sh -c 'kill -9 $$'; true", marks=pytest.mark.cpus(4)),
], ids=["ls", "files", "a cache that comes and goes", "path errors", "a loop that forks", "killed and failed programs"])
def test_clean_commands(command):
    check_clean(command)


@pytest.mark.cpus(4)
def test_pipeline():
    check_clean("ls -l / | grep bin | wc -l", "--runs", "32")


def test_what_happens_once_is_not_a_leak():
    """Only one run creates a file that stays. The report lists the file's objects under "not repeated", and the verdict is CLEAN."""
    result = quick("[ -e /tmp/third ] && exit; [ -e /tmp/second ] && : > /tmp/third; : > /tmp/second")
    assert result.status == 0, result
    assert "not repeated (not counted)" in result.stdout


def test_what_stays_from_each_run_is_a_leak():
    result = quick(": > /tmp/file.$$")
    assert result.status == 1, result
    assert " of tmp_node from stack" in result.stdout


def test_a_status_of_the_command_that_no_one_expects_is_shown_not_judged():
    result = quick("exit 7", "--repeat", "2")
    assert result.status == 0, result
    assert quick("exit 7", "--repeat", "2", "--expect", "0").status == 2
    assert "exit status: 7" in result.stdout


@pytest.mark.parametrize("meddling", ["echo reset > '#mem/kmemtrace/ctl'", "echo stop > '#mem/kmemtrace/ctl'", "printf 'stop\\nstart\\n' > '#mem/kmemtrace/chan'",
                                      "printf 'stop\\nreset\\nstart pid=1\\n' > '#mem/kmemtrace/chan'", "echo mark > '#mem/kmemtrace/chan'"],
                         ids=["reset", "stop", "stop and start", "filter", "mark"])
def test_meddling_is_not_clean(meddling):
    """In the second run, the command under test changes a trace of the leak test. Then the verdict is unknown."""
    result = quick(f"[ -e /tmp/once ] && [ ! -e /tmp/twice ] && {{ : > /tmp/twice; {meddling}; }}; : > /tmp/once", "--repeat", "2")
    assert result.status == 2, result
    assert "another process gave " in result.stdout
    assert result.stdout.startswith("UNKNOWN\n"), result


def test_a_leak_is_a_leak_whoever_meddles():
    result = quick("echo mark > '#mem/kmemtrace/chan'; leakdemo leak 1", "--repeat", "2")
    assert result.status == 1, result
    assert "what is not known:" in result.stdout


@pytest.mark.cpus(4)
def test_what_was_left_running_is_killed():
    """The command leaves processes in the background: a sleep, a loop that creates children without end, and a stopped process. The leak test kills
    them. (Each of six runs leaves a sleep. The report may count fewer of them, because a child that is killed before its exec is still named sh.)"""
    result = quick("sleep 100 & (while :; do (:); done) & sh -c 'kill -STOP $$' & true")
    assert result.status == 0, result
    assert re.search(r"^left running, and killed: .*sleep \([1-6] times\)", result.stdout, re.M), result


def test_a_leak_of_what_was_left_running():
    result = quick("{ leakdemo leak 1; : > /tmp/done; sleep 100; } & until rm /tmp/done 2> /dev/null; do :; done", "--repeat", "2")
    assert result.status == 1, result
    assert re.search(r"LEAKED: 384 bytes from 1 stacks", result.stdout), result


def test_a_leak_by_different_stacks():
    """In each run, the same function leaks one object, with a different stack."""
    result = quick("echo x >> /tmp/n; echo \"leak debug_64 1 depth=$(wc -l < /tmp/n)\" > '#debug/alloc'")
    assert result.status == 1, result
    assert re.search(r"^LEAKED: 320 bytes of debug_64 by allocate, from 5 stacks, alive in 5 of 5 runs$", result.stdout, re.M), result


def test_a_leak_from_a_cache_that_the_command_has_made():
    """The first traced run creates the cache, and later runs leak objects of the cache."""
    result = quick("echo x >> /tmp/n; case $(wc -l < /tmp/n) in 1) ;; 2) echo 'cache fresh 100 1' ;; *) echo 'leak fresh 1' ;; esac > '#debug/alloc'")
    assert result.status == 1, result
    assert re.search(r"^400 bytes in 4 allocations of fresh from stack\n(.*\n)*?    marks 1-4, ", result.stdout, re.M), result
    assert re.search(r"^LEAKED: 400 bytes from 1 stacks, ", result.stdout, re.M), result


def test_a_leak_from_a_cache_that_each_run_makes():
    """Each run creates a cache with three objects, and frees nothing. The leak test reports the objects and the caches of the five traced
    runs. The trace does not have the objects of the warm-up run."""
    result = quick("echo 'cache fresh 100 3' > '#debug/alloc'")
    assert result.status == 1, result
    assert re.search(r"^1500 bytes in 15 allocations of fresh from stack\n(.*\n)*? +leak_at_depth\+.*\n(.*\n)*?    marks 0-4, ", result.stdout, re.M), result
    assert re.search(r"^\d+ bytes in 5 allocations of kmem_cache from stack$", result.stdout, re.M), result


def test_a_leak_in_two_of_five_runs():
    result = quick("echo x >> /tmp/n; case $(wc -l < /tmp/n) in 3|6) leakdemo leak 1; esac")
    assert result.status == 1, result
    assert re.search(r"^LEAKED: 384 bytes from 1 stacks", result.stdout, re.M), result


def test_a_command_that_is_not_utf_8():
    """The bytes of the command arrive unchanged in the guest, and in the report."""
    result = quick(b"[ $(printf '\xff' | od -An -tx1) = ff ]; exit $?", "--repeat", "1")
    assert (result.status, "exit status: 0" in result.stdout) == (0, True), result


@pytest.mark.parametrize("command, name", [
    ("echo 'leak kmalloc 15 size=1000000' > '#debug/alloc'", "page"), ("echo 'leak debug_1024 15000' > '#debug/alloc'", "debug_1024"),
], ids=["large", "small"])
def test_memory_that_runs_out(command, name):
    """Each run leaks a quarter of memory. If the leak test gets all its dumps, the verdict is a leak; otherwise it is unknown, and the report names
    the cache that grew most. The verdict is never CLEAN."""
    result = quick(command, "--mem", "64M")
    assert result.status in (1, 2), result
    if result.status == 1:
        assert re.search(rf"^\d{{8}} bytes in \d+ allocations of {name} from stack$", result.stdout, re.M), result
    else:
        assert re.search(rf"^what grew most until memory ran out:\n    \d{{8}} bytes in \d+ allocations of {name}$", result.stdout, re.M), result


def make_leaktest(command, report):
    """Runs `make leaktest` with the report in the file `report`, since another test may be writing the default file."""
    return make("leaktest", "QUICK=1", f"REPORT={report}", f"CMD={command}")


@pytest.mark.cpus(4)
def test_make(tmp_path):
    run = make_leaktest("leakdemo leak 3; echo 'done'", tmp_path / "report.txt")
    assert run.status == 1
    assert "leaky_open" in run.stdout
    assert (tmp_path / "report.txt").read_text() == run.stdout
    # leaktest writes the report in all forms, and prints their paths. An object that two judges (repetition in the trace, and reachability)
    # accuse is counted once.
    [(size, objects)] = re.findall(r"^(\d+) bytes in (\d+) allocations of leaky from stack$", run.stdout, re.M)
    told = [line for line in run.stderr.splitlines() if line.startswith(f"leaktest: {tmp_path}")]
    assert [line.partition(": ")[2].partition(":")[0] for line in told] == \
        [str(tmp_path / f"report.{suffix}") for suffix in ("txt", "json", "xml", "folded", "pb.gz", "html", "tracedump")]
    assert re.fullmatch(rf"_start;.*;leaky_open;\[leaky\] {size}\n", (tmp_path / "report.folded").read_text())
    assert re.search(rf"^ *{size} +{objects}  leaky$", tool("report", "--by", "cache", tmp_path / "report.tracedump").stdout, re.M)


@pytest.mark.cpus(4)
def test_make_gives_the_command_as_it_was_typed(tmp_path):
    """The command has quotes, more than one line, and words that make could take for its own
    variables."""
    command = """i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done\necho "<$i> '$(echo a b)' $$" | sed 's/[0-9]*$/pid/'; exit $i"""
    run = make_leaktest(command, tmp_path / "report.txt")
    assert run.status == 0
    assert "<3> 'a b' pid\n" in run.stderr
    assert "exit status: 3\n" in run.stdout


@pytest.mark.parametrize("bug, command, cache, place", [
    ("pipe_close", "ls / | cat", "pipe_buffer", r"\w*pipe\w*\+0x[0-9a-f]+  kern/drivers/dev/pipe\.cc"),
    ("walk_error", "ls /etc/nothing", "chan", r"\w+::walk\+0x[0-9a-f]+  kern/drivers/dev/root\.cc"),
    ("exit_files", "true", "fd_table", r"fd_table_copy\+0x[0-9a-f]+  kern/ns/fd_table\.cc"),
], ids=["pipe_close", "walk_error", "exit_files"])
def test_a_planted_bug_is_found_and_named(bug, command, cache, place):
    """The bugs are from kern/core/planted.h. Five traced runs are enough to find each of them by the stacks of the leaked objects."""
    result = quick(command, "--variant", "debug", "--cmdline", f"break={bug}")
    assert result.status == 1, result
    assert re.search(rf"of {cache} from stack\n(.*\n)*? +{place}:\d+\n", result.stdout), result


# Each round makes one allocation of a fork fail, one allocation later than in the round before. A fork
# makes 18 allocations, or more if no free kernel stack is cached (task.cc). Before the last three, the
# child already has its address space.
FORK_FAILS = "for i in $(seq 13 18); do sh -c \"echo 'failnext 1 after=$i' > '#debug/alloc'; (:); :\"; done 2> /dev/null; true"
IN_A_FILE = "cp /etc/profile /tmp/x.$$; chmod +x /tmp/x.$$; /tmp/x.$$ > /dev/null 2>&1; rm /tmp/x.$$"


# For each planted bug that leaks a reference: a command that triggers the bug, the class of the
# reference, the beginning of the stack that took the reference, and where the reference is at the end
# (None: the report finds it nowhere).
TAKEN = {
    "walk_error": ("ls /etc/nothing", "chan", r"Walk::step\S*.*  kern/ns/walk\.cc", None),
    "exec_format": (IN_A_FILE, "chan", r"program_load\S*  kern/proc/exec\.cc", None),
    "bind_kind": (": > /tmp/f; proctest walk 0 /tmp/f > /dev/null", "chan", r"Chan::create\S*  kern/ns/chan\.cc", None),
    "fork_space": (FORK_FAILS, "address_space", r"AddressSpace::create\S*  kern/proc/address_space\.cc", None),
    "map_room": ("dd if=/dev/zero of=/dev/null bs=200000000000000 count=1", "address_space", r"map\S* .*  kern/proc/sys_memory\.cc", None),
    "create_gone": ("mkdir /tmp/d.$$; cd /tmp/d.$$; rmdir ../d.$$; : > x", "tmp_node", r"\S*Node::make\S*  kern/drivers/dev/tmp_node\.cc", None),
    "coverage_again": ("exec 3<> '#coverage/places'; echo start >&3; echo start >&3", "coverage_map", r"coverage_use\S*  kern/sched/coverage\.cc", None),
    "ref_list": ("cd /tmp", "chan", r"planted_directory_changed\S*  kern/proc/ref_planted\.cc", r"at \+0x10 of kmalloc_32"),
    "ref_timer": ("cd /tmp", "chan", r"planted_directory_changed\S*  kern/proc/ref_planted\.cc", r"at \+0x48 of kmalloc_96"),
    "ref_task": ("cd /tmp", "chan", r"planted_directory_changed\S*  kern/proc/ref_planted\.cc", r"on the kernel stack of task directory"),
    "ref_static": ("cat /proc/self/cmdline", "address_space", r"planted_space_read\S*  kern/proc/ref_planted\.cc", r"spaces_read"),
    "ref_immortal": ("cd /tmp", "namespace", r"planted_directory_changed\S*  kern/proc/ref_planted\.cc", None),
}
# For these bugs, the report lists the references alone, not under an object. The reason is either that
# the object also stays without the bug, or that the object's cache does not have the name of the class.
ALONE = ("ref_immortal", "coverage_again")
# The number of objects that this bug leaks in a run depends on how many kernel stacks are cached: three or four.
VARIES = ("fork_space",)
IN_SHORT = ("walk_error", "exec_format", "ref_list", "ref_timer", "ref_immortal")


def check_taken(result, bug):
    _, kind, place, holder = TAKEN[bug]
    assert result.status == 1, result
    if bug in ALONE:
        pattern = rf"^(\d+) references to objects of {kind} from stack\n +{place}:\d+\n"
    else:  # the references are listed under the object that they keep, whose allocating stack is not at fault
        pattern = (rf"^\d+ bytes in \d+ allocations of {kind} from stack\n(?: .*\n)*? +kept by (\d+) references that were not put, taken from "
                   rf"stack\n +{place}:\d+\n")
    lying = rf" +reference to 0x[0-9a-f]{{16}} .*{holder}.*\n" if holder else r" +\1 references nowhere found\n"
    found = re.search(pattern + r"(?: +\S.*  .*:\d+\n)*" + lying, result.stdout, re.M)
    assert found, result
    taken = int(found[1])  # in five runs, each of which leaks the same number
    assert 15 <= taken <= 20 if bug in VARIES else taken % 5 == 0, result


@pytest.mark.parametrize("bug", [bug if bug in IN_SHORT else pytest.param(bug, marks=pytest.mark.long) for bug in TAKEN])
def test_the_reference_that_was_not_put_is_named(bug):
    result = quick(TAKEN[bug][0], "--variant", "debug", "--cmdline", f"break={bug}")
    check_taken(result, bug)


def test_references_of_several_bugs_are_told_apart():
    """One guest has all bugs of TAKEN that are not in IN_SHORT, and each run triggers all of them."""
    bugs = [bug for bug in TAKEN if bug not in IN_SHORT]
    result = quick("; ".join(f"( {TAKEN[bug][0]} )" for bug in bugs), "--variant", "debug", "--cmdline", f"break={','.join(bugs)}")
    for bug in bugs:
        check_taken(result, bug)


def test_planted_bugs_sleep():
    result = quick("ls / | cat; ls /etc/nothing", "--variant", "debug")
    assert result.status == 0, result


# For each planted bug whose leak does not show in the stacks of a few traced runs: the command, the
# accused cache, and a function of the stack that the report shows (None: the report has no stack).
PIPELINE = "ls / | cat"
HIDDEN_KINDS = {
    "five_stacks": (PIPELINE, "kmalloc_96", "planted_lose"),
    "one_in_two": (PIPELINE, "kmalloc_96", "planted_lose"),
    "one_in_four": (PIPELINE, "kmalloc_96", "planted_lose"),
    "reallocation": (PIPELINE, "(?:page|kmalloc's caches and page together)", "planted_regrow"),
    "batch": ("dd if=/dev/zero bs=1 count=20 2> /dev/null | cat", "kmalloc_2048", "planted_batch"),
    "by_time": ("true", "kmalloc_96", "planted_loss"),
    "host_file": ("cat /host/file", "p9_fid", r"\S*kern/drivers/dev/p9\.cc"),
    # No trace records the memory that these bugs leak.
    "kept_stack": ("true", "kernel_virtual", None),
    "trace_table": (r"printf 'start\nstop\nreset' > '#mem/kmemtrace/chan'", "trace", None),
    "dump_copy": (r"echo start > '#mem/kmemtrace/chan'; cat '#mem/tracedump' > /dev/null; printf 'stop\nreset' > '#mem/kmemtrace/chan'", "trace", None),
    "probe_session": (": < '#probe/clone'", "trace", None),
}


def check_hidden_kind(bug, folder, *options):
    command, name, function = HIDDEN_KINDS[bug]
    (folder / "file").write_text("content\n")
    share = ["--share", str(folder)] if bug == "host_file" else []
    result = leaktest(command, "--variant", "debug", "--cmdline", f"break={bug}", *share, *options)
    assert result.status == 1, result
    assert re.search(rf"^LEAKED \(by counts\): .* of {name} in \d+ untraced runs", result.stdout, re.M), result
    if function:
        assert re.search(rf" allocations of (?:{name}|kmalloc_\d+) from stack\n(.*\n)*? +.*{function}\b", result.stdout), result
    else:
        assert re.search(rf" of {name} in .*\n    (?:it can never be traced|the traced runs left none of it)", result.stdout), result
    assert ("by time" in result.stdout) == (bug == "by_time"), result


@pytest.mark.long
@pytest.mark.parametrize("bug", HIDDEN_KINDS)
def test_a_hidden_kind_is_found_and_named(bug, tmp_path):
    check_hidden_kind(bug, tmp_path)


def test_a_kind_that_no_trace_sees(tmp_path):
    check_hidden_kind("kept_stack", tmp_path, "--runs", "32")


# --- Unreachable objects: a single one is a leak.
LOST_ONCE = "echo x >> /tmp/n; [ $(wc -l < /tmp/n) = 3 ] && leakdemo leak 1; true"


def check_unreachable(report, command, *options):
    """Checks that the leak test finds an unreachable object. Returns the first entry of `unreachable` with a stack in the JSON report, and all of
    the command's results in that report."""
    result = leaktest(command, *options, "--report", report)
    assert result.status == 1, result
    [found] = json.loads(report.with_suffix(".json").read_text())["commands"]
    named = next(lost for lost in found["unreachable"] if lost["stack"])
    assert re.search(rf"^LEAKED \(unreachable\): nobody can reach {named['bytes']} bytes in {named['objects']} objects of {named['name']}, lost in "
                     r"\d+ traced runs$", result.stdout, re.M), result
    assert re.search(r"^    nobody can reach (it|them|\d+ of them) any more$", result.stdout, re.M), result
    return named, found


def test_an_object_that_is_lost_once_is_a_leak(tmp_path):
    """One of five runs loses an object, so only the search for unreachable objects accuses this object. If a lost object has pointers to other
    objects, the report names the other objects, too (`keeps`)."""
    named, found = check_unreachable(tmp_path / "report", LOST_ONCE, "--quick")
    assert (named["name"], named["objects"], named["stack"][0], found["leaks"]) == ("leaky", 1, "leaky_open", []), found
    assert "leaky" not in [group["name"] for group in found["not_repeated"]], found
    assert re.fullmatch(r"kern/drivers/dev/debug\.cc:\d+", named["lines"][0]), named
    named, _ = check_unreachable(tmp_path / "report", "[ -e /tmp/once ] || echo 1 > /tmp/e; echo x >> /tmp/once; chmod 755 /tmp/e; /tmp/e 2> /dev/null; true",
                                 "--quick", "--variant", "debug", "--cmdline", "break=exec_format")
    assert (named["name"], [one["name"] for one in named["keeps"]]) == ("chan", ["bytes_16"]), named


def test_what_is_declared_to_stay_may_be_unreachable():
    result = quick("echo 'leak debug_64 1 stays' > '#debug/alloc'")
    assert (result.status, "unreachable" in result.stdout) == (0, False), result


def check_one_in_ten(report, *options):
    named, _ = check_unreachable(report, "ls / | cat", "--variant", "debug", "--cmdline", "break=one_in_ten", *options)
    assert (named["name"], named["stack"][0]) == ("kmalloc_96", "planted_lose"), named
    assert named["lines"][0].startswith("kern/drivers/dev/pipe_planted.cc:")


def test_an_object_that_is_lost_in_one_run_of_ten(tmp_path):
    check_one_in_ten(tmp_path / "report", "--quick", "--repeat", "16")


@pytest.mark.long
def test_an_object_that_is_lost_in_one_run_of_ten_is_found_ten_times(tmp_path):
    for _ in range(10):
        check_one_in_ten(tmp_path / "report")


# --- For daily use.


def test_a_list_in_one_guest(tmp_path):
    """In one guest, the leaking command is reported, and the clean commands are not accused of that leak. The JSON and JUnit reports have the three
    verdicts. The JSON report serves as a baseline."""
    commands = tmp_path / "commands"
    commands.write_text("# comment\nls /\nleakdemo leak 1\n\nleakdemo clean\n")
    report = tmp_path / "report.txt"
    result = quick(commands, "--together", "--report", report, "--list")
    assert result.status == 1, result
    assert result.stdout.startswith("LEAK\n2 clean, 1 leak, 0 unknown\n\nCLEAN    ls /\nLEAK     leakdemo leak 1\nCLEAN    leakdemo clean\n"), result
    assert "leaky_open" in result.stdout
    assert [one["status"] for one in json.loads(report.with_suffix(".json").read_text())["commands"]] == ["clean", "leak", "clean"]
    suite = ElementTree.parse(report.with_suffix(".xml")).getroot()
    assert [(case.get("name"), len(case)) for case in suite] == [("ls /", 0), ("leakdemo leak 1", 1), ("leakdemo clean", 0)]
    # The baseline hides known leaks; other leaks are accused.
    baseline = ["--baseline", report.with_suffix(".json")]
    result = quick("leakdemo leak 2", *baseline)
    assert (result.status, "10 objects, 1920 bytes from 1 stacks: in the baseline" in result.stdout) == (0, True), result
    assert quick("leakdemo leak 1; : > /tmp/file.$$", *baseline).status == 1


def test_suppressions(tmp_path):
    file = tmp_path / "suppressions"
    file.write_text("leaky:leaky_open it is meant to\n")
    result = leaktest("leakdemo leak 1", "--runs", "16", "--suppressions", file)
    assert result.status == 0, result
    assert re.search(r"^    \d+ objects, \d+ bytes from 1 stacks; .* of leaky in \d+ untraced runs \(7 looks\): leaky:leaky_open: it is meant to$", result.stdout, re.M), result
    assert quick("leakdemo leak 1; : > /tmp/file.$$", "--suppressions", file).status == 1


def test_objects_that_the_kernel_declares_to_stay():
    result = leaktest("echo 'leak debug_64 1 stays' > '#debug/alloc'", "--runs", "16")
    assert result.status == 0, result
    assert re.search(r"^    \d+ objects, .* of debug_64 in \d+ untraced runs \(7 looks\): declared by the kernel to stay", result.stdout, re.M), result
    assert quick("echo 'leak debug_64 1 stays irq' > '#debug/alloc'; echo 'leak debug_64 1' > '#debug/alloc'").status == 1


def test_page_tables_of_the_kernel_stay():
    """Each run has more kernel stacks at once than any run before. The page tables that map the stacks stay for later stacks. The kernel
    calls kmem_not_leak() for these page tables, so the report does not count them as a leak."""
    result = quick("echo x >> /tmp/n; n=$(($(wc -l < /tmp/n) * 150)); printf 'leak kernel_stack %d\\nfree kernel_stack %d\\n' $n $n > '#debug/alloc'")
    assert result.status == 0, result
    assert re.search(r"^    \d+ objects, \d+ bytes from \d+ stacks: declared by the kernel to stay", result.stdout, re.M), result


def test_a_program_and_a_folder_from_outside(tmp_path):
    """The command runs a program that is not in the image (--add), and reads a shared folder. The report names the program's functions and lines:
    leaktest finds the program's file by the build id."""
    program, folder = tmp_path / "stranger", tmp_path / "folder"
    folder.mkdir()
    (folder / "count").write_text("2\n")
    note = tmp_path / "note"
    subprocess.run(["objcopy", "--dump-section", f".note.gnu.build-id={note}", str(BUILD / "user/bin/leakdemo")], check=True)
    note.write_bytes(note.read_bytes()[:-4] + b"\x01\x02\x03\x04")
    subprocess.run(["objcopy", "--update-section", f".note.gnu.build-id={note}", str(BUILD / "user/bin/leakdemo"), str(program)], check=True)
    result = quick("stranger leak $(cat /host/count)", "--share", folder, "--add", program)
    assert result.status == 1, result
    assert re.search(r"^1920 bytes in 10 allocations of leaky from stack", result.stdout, re.M), result
    assert re.search(r"^        main  user/bin/leakdemo/leakdemo\.c:\d+$", result.stdout, re.M), result


@pytest.mark.long
@pytest.mark.parametrize("cpus", [pytest.param(1, marks=pytest.mark.cpus(1)), pytest.param(4, marks=pytest.mark.cpus(4))])
def test_a_hundred_clean_commands(cpus):
    commands = ROOT / "tests/guest/clean_commands.txt"
    count = len(re.findall(r"^[^#\n]", commands.read_text(), re.M))
    result = leaktest(commands, "--together", "--list")
    assert result.status == 0, result
    assert result.stdout.startswith(f"CLEAN\n{count} clean, 0 leak, 0 unknown\n")


def verdicts_of(folder, commands, *options):
    """Returns {command: verdict} of the leak test of several commands."""
    (folder / "list").write_text("".join(f"{command}\n" for command in commands))
    result = leaktest(folder / "list", "--together", *options, "--list")
    lines = result.stdout.partition("\n\n")[2].partition("\n\n---")[0].splitlines()
    return {command: verdict for verdict, command in (line.split(maxsplit=1) for line in lines)}


@pytest.mark.long
@pytest.mark.cpus(4)
@pytest.mark.parametrize("options", [["--quick"], ["--runs", "16"]], ids=["quick", "counted"])
def test_commands_that_do_not_work_are_not_clean(tmp_path, options):
    lines = [line.split(maxsplit=1) for line in (ROOT / "tests/guest/verdict_commands.txt").read_text().splitlines() if not line.startswith("#")]
    wanted = {command: verdict for verdict, command in lines}
    assert verdicts_of(tmp_path, wanted, *options) == wanted
    assert set(verdicts_of(tmp_path, ["ls /nosuch", "false", "cat /nosuch", "nosuchcommand"], *options, "--expect", "0").values()) == {"UNKNOWN"}
    assert set(verdicts_of(tmp_path, ["nosuchcommand", "exit 127"], *options, "--expect", "127").values()) == {"CLEAN"}
