"""make leakfuzz: a short run finds nothing, planted bugs are found and shrunk, a finding can be replayed, and each kind of finding shows itself."""
import re

import pytest

from guest import guest, make, tool

pytestmark = pytest.mark.cpus(1)

LEAK = "0 open W0 P24 0 0; fcntl 3 0 100; close 3"  # triggers the bug dup_range
BUGS = {"rename_name": "leak", "exec_format": "leak", "getdents_fault": "leak", "dup_range": "leak", "bind_spare": "leak",
        "tmp_hole": "panic", "pipe_reader": "panic", "pipe_kill": "hang", "trace_freed": "identity", "pipe_stat": "panic"}
# Old defects that need several programs or threads at once, or time. They are found as one of these kinds.
OLD_BUGS = {"stale_walk": "panic", "timer_storm": "hang|starved", "dead_lock": "locked|panic", "devfd_race": "locked|leak|panic", "late_flags": "identity"}
# A process waits for a lock of its parent in two threads. An alarm wakes one of them, which closes the descriptor; then the parent's lock goes.
CLOSED_WHILE_WAITING = "65534 sigaction e S2 0; open W0 P16 202 1b6; fcntl 3 8 S43; fork; wait4 N1 B0 0 0; setitimer 0 S31 0; thread_create S51; " \
                       "fcntl 3 9 S43; close 3; yield"
# For some kinds of findings: a planted bug, programs that show it, and the options of `leakfuzz play`.
SHOWN = {"death": ("signal_users", ["65534 kill N8 9"], "rounds=1"),
         "starved": ("signal_users", ["65534 kill N8 11"], "rounds=1"),
         "uncharged": ("free_time", ["65534 sigsuspend S14"] * 24, "rounds=1 workers=1"),
         "locked": ("dead_lock", [CLOSED_WHILE_WAITING], "rounds=12"),
         "identity": ("late_flags", ["0 getpid"], "rounds=1")}


def leakfuzz(out, *options):
    run = tool("leakfuzz", "--no-build", "--out", out, *options)
    return run.status, run.stdout


def play(program, *options, words="", lost=()):
    programs = [program] if isinstance(program, str) else program
    quoted = " ".join(f"'{program}'" for program in programs)
    return guest(f"leakfuzz play {words} {quoted}", "--variant", "debug", *options, lost=lost)


def calls_in(output):
    return int(re.search(r"^nothing found in (\d+) calls$", output, re.M)[1])


def test_nothing_is_found(tmp_path):
    status, output = leakfuzz(tmp_path, "--minutes", "0.15", "--seed", "1", "--smp", "1")
    assert status == 0, output
    assert calls_in(output) > 500
    programs = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("run ")]
    assert {line.split()[1] for line in programs[:3]} == {"0", "65534", "65533"}  # at the same time
    # The number of covered addresses still grows in the second half of the run. The growth would stop if programs could close the descriptors
    # through which the fuzzer reads coverage.
    rests = [line.split() for line in (tmp_path / "log").read_text().splitlines() if line.startswith("rest ")]
    places = [int(words[4]) for words in rests]
    assert len(rests) > 1 and places[0] > 2000 and places[-1] > places[(len(places) - 1) // 2], rests


def test_a_planted_bug_is_found_and_shrunk(tmp_path):
    status, output = leakfuzz(tmp_path, "--minutes", "2", "--seed", "1", "--smp", "1", "--shrink", "0.4", "--cmdline", "break=pipe_stat")
    assert status == 1, output
    assert re.search(r"^leakfuzz: found panic: .*lock of rank \d+ taken", output, re.M)
    programs = (tmp_path / "found.txt").read_text()
    assert "pipe2" in programs and "fstat" in programs
    assert "stele_call(ABI_SYS_fstat, " in (tmp_path / "found.c").read_text()


@pytest.mark.long
@pytest.mark.icount
def test_the_seed_repeats_a_run():
    runs = [guest("leakfuzz fuzz seed=7 seconds=1", "--variant", "debug", "--icount") for _ in range(2)]
    assert runs[0].status == 0 and "\nrest calls " in runs[0].stdout
    assert runs[0].stdout == runs[1].stdout


def test_a_leak_is_played_again():
    clean, found = play(LEAK), play(LEAK, "--cmdline", "break=dup_range", lost=["chan"])
    assert (clean.status, clean.stdout.splitlines()[-1]) == (0, "nothing found")
    assert found.status == 1
    assert re.search(r"^found leak chan was \d+, is \d+$", found.stdout, re.M)


def test_a_process_that_cannot_be_killed_is_found():
    found = play("0 pipe2 B0 0; write 4 B1 10000", "--cmdline", "break=pipe_kill")
    assert found.status == 1
    assert re.search(r"^found hang process \d+ cannot be killed$", found.stdout, re.M)
    # The report has the process's stack, from #debug/stacks.
    assert re.search(r"^found hang pid \d+ leakfuzz: sleeps, no signal wakes it\n(found hang  .*\n)*?found hang  +PipeDevice::write\+", found.stdout, re.M)


@pytest.mark.cpus(2)
@pytest.mark.parametrize("kind", ["death", "starved", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("uncharged", "locked", "identity"))])
def test_each_kind_of_finding_is_shown(kind):
    """Programs show the finding if a planted bug is switched on, and only then."""
    bug, programs, words = SHOWN[kind]
    trace = "trace=ref.chan,ref.tmp_node"
    clean = play(programs, "--cmdline", trace, words=words)
    assert (clean.status, clean.stdout.splitlines()[-1]) == (0, "nothing found"), clean
    found = play(programs, "--cmdline", f"{trace} break={bug}", words=words)
    assert found.status == 1, found
    assert {line.split()[1] for line in found.stdout.splitlines() if line.startswith("found ")} == {kind}


@pytest.mark.cpus(2)
def test_a_bind_on_a_directory_that_is_removed():
    """A process removes a directory while another binds on it. A bind on a directory without a name would be left, with its channels."""
    result = play("0 mkdir W0 P2 1ff; fork; apart; mkdir W0 P1 1ff; bind P2 T0 0; unmount T0; again 1388; unlink W0 P1 8; again 1388", words="rounds=6")
    assert (result.status, result.stdout.splitlines()[-1]) == (0, "nothing found"), result


def test_the_clean_up_ends_where_a_directory_is_bound_on_its_own_entries():
    """/tmp/fuzz is bound on its entries b and a/a. A walk that does not undo the binds first would not end."""
    result = play("0 mkdir W0 P1 1ff; mkdir W0 P4 1ff; mkdir W0 P2 1ff; bind P0 T2 0; bind P0 T1 0", "--timeout", "60", words="rounds=1")
    assert (result.status, result.stdout.splitlines()[-1]) == (0, "nothing found"), result


def test_calls_are_made_again():
    """`again 1d` makes the calls of the program 29 times more: 30 pipes. After thread_create, two threads do so: 60 pipes. After `apart`, a forked
    process skips these calls and makes others: 10 pipes."""
    script = """
        pipes() { awk '$1 == "pipe" { print $7 }' '#mem/kmemstat'; }
        for program in '0 pipe2 B0 0; close 3; close 4; again 1d' '0 thread_create S51; pipe2 B0 0; close 3; close 4; again 1d; thread_exit' \
            '0 fork; apart; pipe2 B0 0; close 3; close 4; again 9; getpid; again 9'; do
            before=$(pipes); leakfuzz run "$program"; after=$(pipes); before_none=$(pipes); leakfuzz run '0 getpid'; none=$(pipes)
            echo $((after - before - (none - before_none)))
        done
    """
    result = guest(script, "--variant", "debug")
    assert (result.status, result.stdout.split()) == (0, ["30", "60", "10"]), result


def test_as_c():
    result = guest(f"leakfuzz c '{LEAK}'", "--variant", "debug")
    assert result.status == 0
    assert 'stele_call(ABI_SYS_open, 0xfffffffffffffffe, (long)"/dev/zero", 0x0, 0x0, 0, 0);' in result.stdout
    result = guest("leakfuzz c '0 getpid; touch A1; again 1e'", "--variant", "debug")
    assert "  touch(0x20000000);\n  if (repetitions++ < 30) goto again;\n" in result.stdout
    result = guest("leakfuzz c '0 fork; apart; getpid; again 1e; close 3'", "--variant", "debug")
    assert "  from = is_new ? 4 : 2;\n  is_new = 0;\n  goto again;\n    case 2:;\n" in result.stdout


def test_the_program_in_c_does_the_same(tmp_path):
    """`leakfuzz c` writes a C program that makes the calls of the given fuzzer programs. The C program leaks if the planted bug is
    switched on, and only then. The calls have arguments from each of the fuzzer's pools of values."""
    more = "65534 open W0 P1 602 1ff; write 3 D1 5; sigaction 1e S2 B0; sigprocmask 1 S16 B1; poll S19 4 0; poll S18 100 0; ioctl 0 3 S25; execve P30 V5 V6; " \
           "fork; apart; getpid; again 1; close 3"
    source = guest(f"leakfuzz c '{LEAK}' '{more}'", "--variant", "debug")
    assert source.status == 0, source
    (tmp_path / "found.c").write_text(source.stdout)
    assert make("program", f"FROM={tmp_path / 'found.c'}", f"TO={tmp_path / 'found'}").status == 0
    rises = {}
    for bug in ("", "break=dup_range"):
        result = guest("live() { awk '$1 == \"chan\" { print $6 }' '#mem/kmemstat'; }; found; a=$(live); found; found; b=$(live); echo $((b - a))",
                       "--variant", "debug", "--add", tmp_path / "found", "--cmdline", bug, lost=["chan"] if bug else [])
        assert result.status == 0, result
        rises[bug] = int(result.stdout)
    assert rises[""] < 2 <= rises["break=dup_range"], rises


def test_bad_arguments():
    cases = {"": "fuzz, play, each, run or c?", "fuzz seed=x": "'x' is not a number", "play": "no program", "play '0 opne 1'": "not a program: 0 opne 1",
             "play '0 open W0 P999 0 0'": "not a program", "play -f /none": "/none", "fuzz '0 getpid'": "'0 getpid'?", "play '0 getpid 1'": "not a program"}
    result = guest("\n".join(f"echo == >&2; leakfuzz {arguments}; echo $?" for arguments in cases))
    assert result.stdout.split() == ["2"] * len(cases)
    for said, why in zip(result.stderr.split("==\n")[1:], cases.values()):
        assert why in said


def test_coverage():
    """#coverage lists the addresses that the writing process reaches, each address only once. It does
    not list the addresses that children of the process reach."""
    result = guest("""
        exec 3<> '#coverage/places'
        echo start >&3
        read x < /proc/uptime
        wc -c <&3 > /tmp/first
        (read x < /proc/uptime)
        echo stop >&3
        read x < /etc/profile
        cat <&3 | wc -c > /tmp/second
        cat <&3 | wc -c > /tmp/third
        cat /tmp/first /tmp/second /tmp/third
        echo nonsense >&3; echo $?
    """, "--variant", "debug")
    first, second, third, status = map(int, result.stdout.split())
    assert first > 800 and first % 8 == 0
    assert second < first and third == 0 and status != 0


@pytest.mark.long
@pytest.mark.cpus(2)
def test_nine_of_ten_planted_bugs_are_found(tmp_path):
    found = {}
    for bug, kind in BUGS.items():
        status, output = leakfuzz(tmp_path / bug, "--minutes", "3", "--smp", "2", "--shrink", "3", "--cmdline", f"break={bug}")
        found[bug] = status == 1 and f"found {kind}: " in output
        if found[bug]:
            print(f"{bug}: {(tmp_path / bug / 'found.txt').read_text() if (tmp_path / bug / 'found.txt').exists() else 'not again'}")
    assert sum(found.values()) >= 9, found


@pytest.mark.long
@pytest.mark.cpus(4)
@pytest.mark.parametrize("bug", OLD_BUGS)
def test_an_old_bug_is_found_in_ten_minutes(bug, tmp_path):
    status, output = leakfuzz(tmp_path, "--minutes", "10", "--shrink", "2", "--cmdline", f"break={bug}")
    assert status == 1, output
    assert re.search(f"found ({OLD_BUGS[bug]}): ", output), output


@pytest.mark.long
@pytest.mark.cpus(4)
def test_nothing_is_found_in_half_an_hour(tmp_path):
    status, output = leakfuzz(tmp_path, "--minutes", "30", "--smp", "4")
    assert status == 0, output
    assert calls_in(output) >= 1_000_000
