"""Shared by the guest tests: running a script in the guest."""
import os
import pathlib
import subprocess
import tempfile

import unreached
from stele.build import ROOT, build_folder, environment
from stele.dump import parse_ctl as ctl_in, parse_dumps as dumps_in  # noqa: F401  # for the tests

BUILD = build_folder()
TOOLCHAIN = pathlib.Path(os.environ.get("TOOLCHAIN", BUILD / "toolchain"))

CPUS = 1  # CPUs of a guest without @pytest.mark.cpus(n)
cpus = CPUS  # CPUs of the current test's guests
ask_meanwhile, ask_cpus = None, CPUS  # pytest's --ask-meanwhile and --ask-cpus: see unreached.py


class Result:
    """The exit status and the output of a guest. The constructor prints both, so that pytest shows them in full if the test fails. (For a failed
    assert, pytest shows only abbreviated values.)"""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr
        print(self)

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def text(data):
    return data.decode("utf-8", "replace")


def guest(script, *options, log=True, lost=()):
    """Runs `script` in a guest. If `log` is true, the kernel's log is discarded (--log /dev/null); otherwise the log is in the result's
    stderr. At the end all objects must be reachable, except objects that the script has lost through #debug, and objects of the caches and
    arenas that `lost` names."""
    may_be_lost = "|".join([unreached.planted_in(script), *lost])
    if ask_meanwhile:
        script = unreached.ASK_MEANWHILE + script
    with tempfile.NamedTemporaryFile(prefix="stele-") as fourth_port:
        command = [str(ROOT / "scripts/guest"), "--no-build", "--smp", str(cpus), "--port", "tests", "--unreachable", fourth_port.name, *options,
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


def checked(script, *options, status=0, errors="", **more):
    """Runs `script` in a guest, and checks its status and its standard error. Returns its standard output."""
    result = guest(script, *options, **more)
    assert (result.status, result.stderr) == (status, errors), result
    return result.stdout


def tool(name, *options, **more):
    """Runs scripts/NAME. `more` is for subprocess.run()."""
    run = subprocess.run([ROOT / "scripts" / name, *options], capture_output=True, check=False, **more)
    return Result(run.returncode, text(run.stdout), text(run.stderr))


def kernel_test(name, *options, variant="debug"):
    """Runs the kernel's own tests whose names contain `name`."""
    return tool("guest", "--no-build", "--variant", variant, f"--ktest={name}", *options)


def make(*words):
    """Runs make with the build under test, as a person does: without what an outer make has left in the environment."""
    run = subprocess.run(["make", "-s", "-C", ROOT, f"BASE={os.path.relpath(BUILD, ROOT)}", *words], env=environment(), capture_output=True, check=False)
    return Result(run.returncode, text(run.stdout), text(run.stderr))


def leaktest(command, *options, lost_at=False, kept_by=False):
    """Runs scripts/leaktest on `command`. The report is on standard output. Only with `lost_at` it looks for the instructions that lost something, and
    only with `kept_by` for the fields that keep something."""
    return tool("leaktest", "--no-build", "--smp", str(cpus), "--port", "tests", "--report", "/dev/null", *["--no-lost-at"] * (not lost_at),
                *["--no-kept-by"] * (not kept_by), *options, command)


def live_counts(output):
    """Returns a list of {cache: live objects}, one for each kmemstat in the output."""
    tables = []
    for words in map(str.split, output.splitlines()):
        if words[:1] == ["NAME"]:
            tables.append({})
            column = words.index("LIVE")
        elif tables and len(words) > column and words[1] in ("A", "S"):
            tables[-1][words[0]] = int(words[column])
    return tables


def sections_of(output):
    """Returns {name: text} of a script that prints `== NAME` before each of its parts."""
    return {name: body for name, _, body in (part.partition("\n") for part in output.split("== ")[1:])}


def user_symbols(program):
    """Returns the address ranges of the functions of a built user program: [(start, end, name)]."""
    lines = subprocess.run(["nm", "-S", str(BUILD / "user/bin" / program)], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in lines.splitlines()]
    return [(int(w[0], 16), int(w[0], 16) + int(w[1], 16), w[3]) for w in words if len(w) == 4 and w[2] in "tT"]


def functions_of(frames, program):
    """Returns the functions of the frames in a program's user stack."""
    symbols = user_symbols(program)
    names = []
    for frame in frames:
        address, path = frame.split()
        assert path == f"[/bin/{program}]"
        # Some functions of the C library have several names; the shortest is the one that programs
        # use.
        names += sorted((name for start, end, name in symbols if start <= int(address, 16) - 1 < end), key=len)[:1]
    return names
