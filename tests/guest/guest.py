"""Shared by the guest tests: running a script in the guest."""
import os
import pathlib
import subprocess
import tempfile

import unreached
from stele.dump import parse_ctl, parse_dumps

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STELE_BUILD", ROOT / "build"))

CPUS = 4  # of a guest by default: @pytest.mark.cpus(n)
cpus = CPUS  # of the guests of the current test
ask_meanwhile, ask_cpus = None, CPUS  # pytest's --ask-meanwhile and --ask-cpus: see unreached.py


class Result:
    """The output of a guest. pytest shows it whole if the test fails; it would cut off the operands
    of an assert."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr
        print(self)

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def text(data):
    return data.decode("utf-8", "replace")


def guest(script, *options, log=True, lost=()):
    """Runs `script` in the guest. The kernel's log is left out of stderr unless `log` is false.
    When it has ended, nothing may be unreachable but objects that #debug was told to lose, and
    objects of the caches and arenas `lost`."""
    may_be_lost = "|".join([unreached.planted_in(script), *lost])
    if ask_meanwhile:
        script = unreached.ASK_MEANWHILE + script
    with tempfile.NamedTemporaryFile(prefix="stele-") as fourth_port:
        command = [str(ROOT / "scripts/guest"), "--no-build", "--smp", str(cpus), "--unreachable", fourth_port.name, *options,
                   *(["--smp", str(ask_cpus)] if ask_meanwhile else []), "-c", script]
        if log:
            command[1:1] = ["--log", "/dev/null"]
        run = subprocess.run(command, capture_output=True, check=False)
        result = Result(run.returncode, text(run.stdout), text(run.stderr))
        unreached.check_the_end(text(fourth_port.read()), may_be_lost)
    if ask_meanwhile:
        with open(ask_meanwhile, "a", encoding="utf-8") as reports:
            reports.write(f"{unreached.check_meanwhile(result.stderr, may_be_lost)}\n")
    return result


def leaktest(command, *options):
    """Runs scripts/leaktest on `command`. The report is on standard output."""
    run = subprocess.run([str(ROOT / "scripts/leaktest"), "--no-build", "--smp", str(cpus), "--report", "/dev/null", *options, command],
                         capture_output=True, check=False)
    return Result(run.returncode, text(run.stdout), text(run.stderr))


def dumps_in(output):
    """The dumps of traced caches in the output."""
    return parse_dumps(output)


def ctl_in(output):
    """(trace memory, traces) of #mem/kmemtrace/ctl in the output."""
    return parse_ctl(output)


def live_counts(output):
    """[{cache: live objects}], one for each kmemstat in the output."""
    tables = []
    for words in map(str.split, output.splitlines()):
        if words[:1] == ["NAME"]:
            tables.append({})
            column = words.index("LIVE")
        elif tables and len(words) > column and words[1] in ("A", "S"):
            tables[-1][words[0]] = int(words[column])
    return tables


def sections_of(output):
    """{name: text} of a script that prints `== NAME` before each of its parts."""
    return {name: body for name, _, body in (part.partition("\n") for part in output.split("== ")[1:])}


def user_symbols(program):
    """Address ranges of the functions of a user program that was built: [(start, end, name)]."""
    lines = subprocess.run(["nm", "-S", str(BUILD / "user/bin" / program)], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in lines.splitlines()]
    return [(int(w[0], 16), int(w[0], 16) + int(w[1], 16), w[3]) for w in words if len(w) == 4 and w[2] in "tT"]


def functions_of(frames, program):
    """The functions of the frames in a program's user stack."""
    symbols = user_symbols(program)
    names = []
    for frame in frames:
        address, path = frame.split()
        assert path == f"[/bin/{program}]"
        # The C library has some functions under several names: programs use the shortest.
        names += sorted((name for start, end, name in symbols if start <= int(address, 16) - 1 < end), key=len)[:1]
    return names
