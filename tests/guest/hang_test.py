"""A hanging guest: at the timeout, an NMI makes every CPU print its state, even while locks are held
or functions are probed."""
import re
import signal
import subprocess
import threading
import time

import pytest

from guest import ROOT, Result, guest, text

HANG = "echo start > #mem/kmemtrace/debug_1024; echo 'leak debug_1024 300 depth=5' > #debug/alloc; "


def cpus_in(errors):
    """Returns ({CPU: functions of the CPU's backtrace, the interrupted function first}, text of the report), from the report of the NMI on
    standard error."""
    account = errors[errors.index("NMI: what each CPU does"):errors.index("NMI: end")]
    cpus = {}
    for line in account.splitlines():
        if cpu := re.search(r"  CPU (\d+) of \d+, task ", line):  # other output may come before this text in the line
            functions = cpus.setdefault(int(cpu[1]), [])
        elif re.match(r"\[", line):
            break
        elif frame := re.match(r"    [0-9a-f]{16} (\S+)\+0x[0-9a-f]+ \[kernel\]", line):
            functions.append(frame[1])
    return cpus, account


def hang(script, cpus):
    """Runs `script` in a guest. Two seconds after the script's last line has begun, SIGUSR1 makes scripts/guest act as if the time limit were
    over. So a slow host does not matter. Returns cpus_in() of standard error."""
    before, newline, last = script.rpartition("\n")
    command = [str(ROOT / "scripts/guest"), "--no-build", "--smp", str(cpus), "--timeout", "600", "-c", f"{HANG}{before}{newline}echo now; {last}"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors = []
    reader = threading.Thread(target=lambda: errors.append(run.stderr.read()))
    reader.start()
    said = run.stdout.readline()
    time.sleep(2)
    run.send_signal(signal.SIGUSR1)
    said += run.stdout.read()
    reader.join()
    result = Result(run.wait(), text(said), text(errors[0]))
    assert result.status == 124, result
    assert result.stdout == "now\n", result
    assert "was told that its time is over" in result.stderr
    assert "kernel panic" not in result.stderr
    return cpus_in(result.stderr)


@pytest.mark.cpus(4)
def test_every_cpu_and_the_top_stacks():
    """All CPUs print their backtraces although the CPU that hangs holds the lock of the log. The report also has the stack of the objects that
    hold most memory."""
    cpus, account = hang("echo hang log > #debug/ctl", 4)
    assert sorted(cpus) == [0, 1, 2, 3], account
    assert "does not answer" not in account
    [hanging] = [functions for functions in cpus.values() if "debug_hang_in_log" in functions]
    assert "DebugDevice::write_file" in hanging, account
    assert re.search(r"\d+ bytes in 300 allocations are live in 1 traces", account), account
    assert "leak_at_depth+" in account


@pytest.mark.long
@pytest.mark.cpus(4)
def test_everything_is_probed():
    """The functions that the NMI handler calls have breakpoints on their returns. The iret of a breakpoint unblocks NMIs while the handler still
    runs. So the CPU that collects the backtraces must not send a second NMI to a CPU whose handler runs."""
    cpus, account = hang("""exec 3<>#probe/clone
echo 'event+return console_print* vformat format symbol_* walk_kernel* log_line uart_write
start' >&3 || exit
echo hang > #debug/ctl""", 4)
    assert sorted(cpus) == [0, 1, 2, 3], account
    [hanging] = [functions for functions in cpus.values() if "debug_hang" in functions]
    assert hanging[0] == "debug_hang", account
    # No backtrace begins in the handler of the first NMI.
    assert not [functions for functions in cpus.values() if "nmi_report" in functions or "trap_dispatch_paranoid" in functions], account


@pytest.mark.icount
@pytest.mark.cpus(1)
def test_under_icount():
    """The report goes to standard error although --log sends the kernel's log elsewhere."""
    result = guest(HANG + "echo hang > #debug/ctl", "--timeout", "5", "--icount")
    assert result.status == 124, result
    assert "timed out after 5 s" in result.stderr
    cpus, account = cpus_in(result.stderr)
    assert list(cpus) == [0] and cpus[0][0] == "debug_hang", account
    assert "held locks: 1" in account, account
