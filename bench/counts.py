"""Counts instructions in guests, and compares the counts with the baseline.

A count repeats exactly, so a test compares each one with its value in bench/baseline/, which has a file
for each compiler.
"""
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINES = ROOT / "bench/baseline"
TOLERANCE = 0.02
# For each row whose tolerance is not TOLERANCE: its tolerance. longest_hook is the cost of the
# dearest of 200,000 calls of hooks. It depends on all allocations since boot, even on the size of
# the initial archive.
TOLERANCES = {"longest_hook": 0.15}
# Rows whose names begin with LOAD_ROWS are the per cent that traces add to a whole load (loads.py).
# They are so small that their tolerance is in percentage points. These rows changed by 0.1 points
# when the guest's memory size, the length of the script, or unrelated code of the kernel changed.
LOAD_ROWS, LOAD_TOLERANCE = "short_load_", 0.3
# The script prints #bench/rows. Then the program alloctest measures its malloc and free: first
# untraced, then while memleak traces alloctest.
SCRIPT = """
cat '#bench/rows' || exit
cd /tmp; : > memleak; : > times
{ until [ -s memleak ]; do sleep 0.1; done; echo; echo; } | alloctest --time > times &
until [ -s times ]; do sleep 0.1; done
memleak -p $(pidof alloctest) > memleak || exit
wait; cat times
"""
# For each guest: its number of CPUs, and its script. #bench/remote needs several CPUs and has a
# separate guest, because the timer interrupts of a second CPU would be counted in every row of
# #bench/rows. It has rows of 2 and 8 CPUs; with 64 CPUs, whose boot takes long, also rows of 64.
REMOTE = "cat '#bench/remote'"
GUESTS = ((1, SCRIPT), (8, REMOTE))
MANY_CPUS = 64
MANY_CPUS_ROWS = {f"{state}_free_of_{MANY_CPUS}_cpus" for state in ("untraced", "traced")}
HOT_PATH = ("kmem_cache_alloc", "kmem_cache_free")


def build_folder():
    return pathlib.Path(os.environ.get("STELE_BUILD", ROOT / "build"))


def parse(text):
    """Parses the text of #bench/rows to {row: value}."""
    rows = {}
    for line in text.splitlines():
        name, value = line.split()
        rows[name] = float(value)
    return rows


def path_of(listing):
    """Returns the instructions of a function up to its first return. These are the likely path,
    because the compiler places it first."""
    path = []
    for line in listing.splitlines():
        match = re.match(r"\s*[0-9a-f]+:\s+(\S.*)", line)
        if not match:
            continue
        path.append(" ".join(match[1].split()))
        if path[-1].startswith("ret"):
            return path
    raise ValueError("a function without a return")


def flag_tests(path):
    """Returns the number of instructions in `path` that test the flags of a cache: each bit test
    on memory, and the branch after the test. All bit tests on memory in `path` test these flags."""
    tests = [place for place, instruction in enumerate(path) if re.match(r"test\w* \$0x[0-9a-f]+,.*\(%r", instruction)]
    if not tests or not all(path[place + 1].startswith("j") for place in tests):
        raise ValueError("the hot path does not test the flags in the expected way")
    return 2 * len(tests)


def hot_path(kernel):
    """Returns {function: the instructions of its likely path} for an untraced allocation and free of
    an object."""
    return {name: path_of(subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", str(kernel)],
                                         stdout=subprocess.PIPE, text=True, check=True).stdout)
            for name in HOT_PATH}


def run(cpus, script, build):
    """Runs the script in a guest under -icount, in the configuration of `make run`. Returns {row: value}."""
    command = [str(ROOT / "scripts/guest"), "--icount", "--smp", str(cpus), "--timeout", "300", "--port", "tests", "-c", script]
    guest = subprocess.run(command + ([] if build else ["--no-build"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if guest.returncode != 0:
        raise RuntimeError(f"the guest ended with {guest.returncode}: {guest.stderr}")
    return parse(guest.stdout)


def measure(build=True):
    """Returns {row: value} from the guests of GUESTS. The row untraced_flag_tests comes from the code of the kernel's ELF file."""
    rows = {}
    for cpus, script in GUESTS:
        rows |= run(cpus, script, build)
    rows["user_pair"], traced = rows.pop("before"), rows.pop("after")
    rows["user_pair_added"] = traced - rows["user_pair"]
    rows["untraced_flag_tests"] = float(flag_tests(sum(hot_path(build_folder() / "stele.elf").values(), [])))
    return rows


def measure_many_cpus(build=True):
    """Returns {row: value} of the rows MANY_CPUS_ROWS."""
    rows = run(MANY_CPUS, REMOTE, build)
    return {row: rows[row] for row in MANY_CPUS_ROWS}


def allowed(name, before):
    """Returns the largest permitted value of a row whose baseline is `before`."""
    return before + LOAD_TOLERANCE if name.startswith(LOAD_ROWS) else before * (1 + TOLERANCES.get(name, TOLERANCE))


def worse(rows, baseline):
    """Returns lines of text about rows that exceed the baseline by more than the tolerance, or
    cannot be compared."""
    lines = [f"{name}: the baseline has no such row" for name in sorted(rows.keys() - baseline.keys())]
    for name, before in sorted(baseline.items()):
        if name not in rows:
            lines.append(f"{name}: not counted any more")
        elif rows[name] > allowed(name, before):
            lines.append(f"{name}: {rows[name]:g}, and it was {before:g}")
    return lines


def compiler():
    """Returns the name of this machine's compiler, which has built the kernel, in bench/baseline/."""
    version = subprocess.run(["g++", "-dumpversion"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return f"gcc-{version.split('.')[0].strip()}"


def baseline(of):
    """Returns {row: value} for a compiler; empty if it has no baseline."""
    file = BASELINES / f"{of}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def write_baseline(rows):
    (BASELINES / f"{compiler()}.json").write_text(json.dumps({name: round(value, 2) for name, value in rows.items()}, indent=1, sort_keys=True) + "\n")
