"""Tests `make leaksweep`: it runs a command once for each kernel allocation of the command, lets this allocation fail, and reports leaks in error
paths. Also tests the command `failnext N process=P` of #debug/alloc, on which leaksweep is based."""
import re

import pytest

from guest import guest, make, sections_of, tool

pytestmark = [pytest.mark.cpus(1), pytest.mark.icount]


def leaksweep(command, *options):
    return tool("leaksweep", "--no-build", "--port", "tests", "--report", "/dev/null", *options, command)


def check_clean(result):
    assert (result.status, result.stdout.startswith("CLEAN\n")) == (0, True), result
    # There are only a few dozen failures, since the page cache already has the pages of a program's text.
    assert int(re.search(r"^failures: (\d+)", result.stdout, re.M)[1]) > 30, result


@pytest.fixture(scope="module")
def orders():
    """Runs one script with several sections. Returns ({section: standard output}, {section: standard error})."""
    result = guest("""
section() { echo "== $1"; echo "== $1" >&2; }
sweep() { sh -c "echo 'failnext $1' > '#debug/alloc' && { $2; }"; grep sweep '#debug/alloc'; }
section third; sweep '1 after=0 process=3' 'cat /dev/null; cat /etc/profile > /dev/null; cat /dev/null; :'
section none; sweep '1 after=1000000 process=2' '(:); (:); :'
section later; sweep '1 process=4' '(:); (:); :'
section children; sh -c "echo 'failnext 100000' > '#debug/alloc'; (:)"; grep sweep '#debug/alloc'
section busy; sh -c "echo 'failnext 0 process=1' > '#debug/alloc'; sleep 1000 & exit 0"; sweep '1 process=2' true
kill $(sed -n 's/sweep processes 2 alive //p' '#debug/alloc'); echo settle > '#mem/kmemtrace/ctl'; grep sweep '#debug/alloc'
section bad
for text in 'failnext 1 process=0' 'failnext 1 process=' 'failnext 1 process=x' 'failnext 1 process=1 after=1' 'failnext 1 process=1 x' 'failnext 1 process=99999999999'; do
  printf "$text\\n" > '#debug/alloc' && echo fine
done
""", "--icount")
    return sections_of(result.stdout), sections_of(result.stderr)


def test_an_order_reaches_the_process_of_its_number(orders):
    out, _ = orders
    assert out["third"].startswith("sweep processes 4 alive\nsweep failed 3 1 ")
    assert re.search(r"^sweep failed 3 1 \S+ \d+ \d+ \S+\nsweep frame ffffffff8[0-9a-f]{7}$", out["third"], re.M), out["third"]


def test_an_allocation_that_does_not_come_does_not_fail(orders):
    out, _ = orders
    assert out["none"] == "sweep processes 3 alive\n"


def test_a_process_that_does_not_come_does_not_fail(orders):
    out, _ = orders
    assert out["later"] == "sweep processes 3 alive\n"


def test_an_order_without_a_number_is_not_inherited(orders):
    out, _ = orders
    assert out["children"] == out["later"]  # `failnext` without process= has not begun a sweep


def test_one_sweep_at_a_time(orders):
    out, err = orders
    alive, after = out["busy"].splitlines()
    assert re.fullmatch(r"sweep processes 2 alive \d+", alive)
    assert "processes of another sweep are still there" in err["busy"]
    assert after == "sweep processes 2 alive"


def test_bad_orders(orders):
    out, err = orders
    assert out["bad"] == ""
    assert err["bad"].count("Invalid argument") == 6


# For each planted bug: a command that reaches the bug, the function in which an allocation must fail,
# the cache or arena that then leaks, and the function that allocated the leaked objects.
PLANTED = {
    "fork_error": ("(:); :", "task_create", "fd_table", r"fd_table_copy\+0x[0-9a-f]+  kern/ns/fd_table\.cc"),
    "load_error": ("true; :", "AddressSpace::add_region", "address_space", r"AddressSpace::create\+0x[0-9a-f]+  kern/proc/address_space\.cc"),
    "create_error": (": > /tmp/x; rm -f /tmp/x", "tmp::Name::copy", "tmp_node", r"\w*::create\+0x[0-9a-f]+  kern/drivers/dev/tmp\.cc"),
    "bind_error": ("failtest -1 'bind as union'", "Namespace::bind", "chan", r"\w+::walk\+0x[0-9a-f]+  kern/drivers/dev/root\.cc"),
    "fault_error": (":", "new_table", "page", r"AddressSpace::fault\+0x[0-9a-f]+  kern/proc/address_space\.cc"),
}


@pytest.mark.parametrize("bug", [pytest.param(bug, marks=[pytest.mark.long] * (bug != "fault_error")) for bug in PLANTED])
def test_a_broken_error_path_is_found_and_named(bug):
    """Finds the bugs of kern/core/planted.h that leak only if an allocation fails."""
    command, function, name, place = PLANTED[bug]
    result = leaksweep(command, "--variant", "debug", "--cmdline", f"break={bug}")
    assert result.status == 1, result
    assert re.search(rf"^LEAKED: failing allocation \d+ of process \d+ \(\S+\), in {function}, leaks .*\d+ bytes of {name}\b", result.stdout, re.M), result
    assert re.search(rf"bytes in 1 allocations of {name} from stack\n(.*\n)*? +{place}:\d+\n", result.stdout), result


def test_a_command_that_leaves_something():
    result = leaksweep(": > /tmp/file.$$", "--jobs", "1")
    assert result.status == 2, result
    assert re.search(r"^    the command leaves something without any failure .* of tmp_node", result.stdout, re.M), result


@pytest.mark.parametrize("command", ("sleep 100000", "sleep 100000 & true"))
def test_a_command_that_does_not_end(command):
    result = leaksweep(command, "--jobs", "1", "--limit", "1")
    assert (result.status, result.stdout.splitlines()[0]) == (2, "UNKNOWN"), result
    assert "the command does not end by itself" in result.stderr, result


@pytest.mark.long
def test_a_run_that_does_not_end_is_killed():
    """When the open fails, the command sleeps without end. leaksweep kills that run, and reports it without counting it as a leak."""
    result = leaksweep("true < /etc/profile || sleep 100000", "--limit", "1")
    assert result.status == 0, result
    assert re.search(r"^hung and were killed \(not counted\): at allocation \d+.* of process 1$", result.stdout, re.M), result


@pytest.mark.long
def test_what_does_not_end_without_a_failure_either_is_doubted():
    """After one failed allocation, every later run of the command hangs. So leaksweep can neither repeat the leak, nor let the remaining allocations
    of the second process fail. leaksweep reports both, and its exit status is 2 (unknown)."""
    result = leaksweep("[ -e /tmp/stuck ] && exec sleep 100000; (:) || : > /tmp/stuck; :", "--jobs", "1", "--limit", "1")
    assert result.status == 2, result
    assert re.search(r"^    could not repeat the failure that left .* of tmp_node.*: allocation \d+ of process 2$", result.stdout, re.M), result
    assert re.search(r"^    the command hung even without a failure, after the failure of allocation \d+.* of process 2", result.stdout, re.M), result
    assert re.search(r"^    process 2 was killed before its allocation \d+ came: it may make more$", result.stdout, re.M), result


@pytest.mark.long
def test_a_panic_is_a_finding_and_not_the_end():
    result = leaksweep("true < /etc/profile || echo panic > '#debug/ctl'", "--jobs", "1")
    assert result.status == 1, result
    panics = re.findall(r"^PANIC: failing allocation (\d+) of process 1 panics the kernel:\n.*requested through #debug/ctl", result.stdout, re.M)
    assert panics == [str(int(panics[0]) + number) for number in range(len(panics))] and len(panics) > 1, result
    assert int(re.search(r"allocations of the processes: 1: (\d+)\n", result.stdout)[1]) > int(panics[-1]), result
    assert result.stdout.startswith("PANIC\n"), result


def test_make(tmp_path):
    """The goal of make, and the short form of test_clean."""
    run = make("leaksweep", f"REPORT={tmp_path}/report.txt", "CMD=: > /tmp/d; echo \"<$$>\"")
    check_clean(run)
    assert re.search(r"^<\d+>$", run.stderr, re.M), run
    assert (tmp_path / "report.txt").read_text() == run.stdout


def test_a_session_of_probes_that_cannot_be_made():
    """The kernel `debug` checks the order of locks: the session must not take its own lock under the lock of the device."""
    check_clean(leaksweep(": < '#probe/clone'", "--variant", "debug"))


@pytest.mark.long
@pytest.mark.parametrize("command", [
    "ls / | cat", "ls -l / | grep bin | wc -l",
    "none-such; /etc/profile; printf '#!/none\\n' > /tmp/x; chmod +x /tmp/x; /tmp/x; printf '\\177ELF\\2\\1\\1' > /tmp/x; /tmp/x; rm -f /tmp/x",
    "mkdir -p /tmp/d/e && rmdir /tmp/d/e; rm -rf /tmp/d",
    "echo a > /tmp/a; mv /tmp/a /tmp/b; mv /tmp/b /tmp/none/c; rm -f /tmp/a /tmp/b",
    "failtest -1 bind unmount union", "(true); (true | true) & wait",
    "exec 3<>#probe/clone && printf 'count pipe_create\\nstart\\n' >&3; true | true; cat #probe/*/counts > /dev/null; exec 3>&-",
    "probethreads calls",
], ids=["pipeline", "longer pipeline", "exec of bad files", "mkdir", "rename", "bind", "fork", "probe session", "threads"])
def test_clean(command):
    check_clean(leaksweep(command))
