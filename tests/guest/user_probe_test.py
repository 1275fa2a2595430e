"""Probes on functions of programs, with #probe from the shell."""
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from guest import BUILD, guest
from stele import returns

pytestmark = pytest.mark.cpus(1)

NOP = bytes.fromhex("0f1f440000")


class Program:
    """The functions of a program of the image, and how commands of #probe name them. Reads the program's unstripped file in build/user/bin."""

    def __init__(self, name, path=None):
        self.file, self.path = BUILD / "user/bin" / name, path or f"/bin/{name}"
        listing = subprocess.run(["nm", "-S", str(self.file)], stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = (line.split() for line in listing.splitlines())
        self.functions = {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tTwW"}
        with tempfile.NamedTemporaryFile() as section:
            subprocess.run(["objcopy", "-O", "binary", "--only-section=.stele.returns", "--set-section-flags", ".stele.returns=alloc",
                            str(self.file), section.name], check=True)
            self.returns = returns.decode(pathlib.Path(section.name).read_bytes())

    def probe(self, name, with_returns=False, path=None):
        address, size = self.functions[name]
        text = f"{path or self.path}:{address:x}:{name}"
        inside = [place for place in self.returns if address <= place < address + size]
        return text + (":" + ",".join(f"{place:x}" for place in inside) if with_returns and inside else "")

    def probes_on_all(self):
        """Returns a list of the functions that begin with the nop for probes. Each element is the text with which commands of #probe name the
        function and its returns. A function with several names is in the list once."""
        code = self.file.read_bytes()
        listing = subprocess.run(["readelf", "-lW", str(self.file)], stdout=subprocess.PIPE, text=True, check=True).stdout
        offset, address = next((int(m[1], 16), int(m[2], 16)) for m in re.finditer(r"LOAD +(\w+) (\w+) .* R E", listing))
        places = {place: name for name, (place, _) in sorted(self.functions.items())}
        return [self.probe(name, True) for place, name in places.items()
                if code[place - address + offset:][:len(NOP)] == NOP]


def session(commands, body):
    """Returns a script that creates a session, gives it the commands, runs `body` while the session runs, and prints the session's counts."""
    lines = ["exec 3<>#probe/clone", "read n <&3"]
    lines += [f"echo '{command}' >&3 || exit 90" for command in commands]
    return "\n".join(lines + ["echo start >&3 || exit 91", body, "echo stop >&3", 'cat "#probe/$n/counts"'])


def counts(output):
    """Returns ({innermost frame: calls}, counters) of the text of `counts`."""
    calls = {}
    for number, frame in re.findall(r"(?m)^count (\d+) user ([0-9a-f]+)", output):
        calls[int(frame, 16)] = calls.get(int(frame, 16), 0) + int(number)
    counters = dict(re.findall(r"(\w+) (\d+)", re.search(r"(?m)^hits .*$", output)[0]))
    return calls, {name: int(value) for name, value in counters.items()}


@pytest.fixture(scope="module")
def program():
    return Program("probetest")


def run_script(script, *options):
    result = guest(script, "--timeout", "120", *options)
    assert result.status == 0, result
    return result.stdout


def calls_of(program, output, name):
    calls, counters = counts(output)
    assert counters["lost"] + counters["stacks_lost"] + counters["kept_out"] == 0, output
    return calls.get(program.functions[name][0] + len(NOP), 0)


def test_calls_are_counted_and_returns_told(program):
    leaf, outer = (program.probe(name) for name in ("probetest_leaf", "probetest_outer"))
    output = run_script(session([f"count {leaf} {outer}", "stacks user"], "probetest calls 100 || exit 1"))
    assert (calls_of(program, output, "probetest_leaf"), calls_of(program, output, "probetest_outer")) == (200, 100)
    output = run_script(session([f"event {program.probe('probetest_branch', True)}"],
                                'cat "#probe/$n/events" & probetest branches 4 || exit 1') + "; wait")
    assert re.findall(r"call probetest_branch (\w+)", output) == ["0", "1", "2", "3"]
    assert re.findall(r"return probetest_branch (\w+)", output) == ["0", "9", "6", "15"]


@pytest.mark.cpus(4)
def test_processes_that_run_already_and_ends(program):
    body = ("probetest exec 5 || exit 1; probetest forks 3 || exit 2; kill -9 $forever; wait $forever; "
            "[ $? = 137 ] || exit 3; probetest exceptions 2 && probetest jumps 2 && probetest signals 2 || exit 4")
    script = "probetest forever & forever=$!\n" + session([f"count {program.probe('probetest_outer')}", "stacks user"], body)
    output = run_script(script + "\nprobetest text || exit 5")
    assert calls_of(program, output, "probetest_outer") == 2 * 5 + 2 * 3 + 2 + 2


def test_file_with_several_names():
    """A probe on a function of /bin/busybox also counts calls when busybox is executed as /bin/ls."""
    busybox = Program("busybox")
    output = run_script(session([f"count {busybox.probe('ls_main')}", "stacks user"],
                                "ls / >/dev/null; busybox ls / >/dev/null; echo x | cat"))
    assert counts(output)[1]["counted"] == 2, output


def test_file_that_is_removed_and_made_again(program):
    """A probed file is removed. Processes that execute it stay probed; a new file with the same path is not probed."""
    leaf, outer = (program.probe(name, path="/tmp/p") for name in ("probetest_leaf", "probetest_outer"))
    hits = 'hits() { read a b; read a hits rest; echo $hits; }; now() { hits <"#probe/$n/counts"; }; '
    body = (hits + "rm /tmp/p; before=$(now); while [ $(now) = $before ]; do sleep 0.01; done; "
            "cp /bin/probetest /tmp/p; /tmp/p calls 100 || exit 2; kill -9 $old")
    output = run_script("cp /bin/probetest /tmp/p; /tmp/p forever & old=$!\n"
                        + session([f"count {leaf} {outer}", "stacks user"], body))
    assert calls_of(program, output, "probetest_outer") == 0
    assert calls_of(program, output, "probetest_leaf") > 0


def test_program_on_the_host_that_is_replaced(program):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(program.file, folder + "/p")
        shutil.copy(program.file, folder + "/new")
        probe = program.probe("probetest_outer", path="/host/p")
        body = "/host/p calls 5 || exit 1; mv /host/new /host/p || exit 2; /host/p calls 100 || exit 3"
        output = run_script(session([f"count {probe}", "stacks user"], body), "--share", folder)
    assert calls_of(program, output, "probetest_outer") == 5


@pytest.mark.long
def test_every_function_of_a_program():
    """The program cxxtest throws exceptions, forks and catches signals while all its functions and their returns are probed. All its checks pass."""
    program = Program("cxxtest")
    probes = program.probes_on_all()
    assert len(probes) > 1000
    commands, line = [], "event"
    for probe in probes + [None]:
        if probe is None or len(line) + len(probe) > 3000:
            commands.append(line)
            line = "event"
        line += f" {probe}"
    body = "cxxtest >/tmp/out; status=$?; tail -n 1 /tmp/out; grep 'not ok' /tmp/out"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "script").write_text(session(commands, body) + "\nexit $status\n", encoding="ascii")
        output = run_script(". /host/script", "--share", folder, "--timeout", "400")  # ten million hits
    assert "not ok" not in output
    assert re.search(r"(?m)^1\.\.\d+$", output)


@pytest.mark.cpus(4)
def test_probes_come_and_go_while_all_cpus_run(program):
    """Inserts and removes probes while four processes execute the probed functions. The processes' results are right, and at the end the program's
    code in memory is the original code again."""
    probes = " ".join(program.probe(name, True) for name in program.functions if name.startswith("probetest_")
                      and "." not in name)
    script = f"""
            for i in 1 2 3 4; do (probetest mixed 20; echo status $?) & done
            for i in 1 2 3 4 5 6 7 8; do
              exec 3<>#probe/clone
              echo 'event {probes}' >&3 || exit 1
              echo start >&3 || exit 2
              [ $i = 4 ] || echo stop >&3
              exec 3>&-
            done
            wait
            probetest text || exit 4"""
    assert run_script(script) == "status 0\n" * 4


def test_what_is_not_there(program):
    address = program.functions["probetest_leaf"][0]
    for function, said in ((f"/bin/probetest:{address + 1:x}:x", "no function that can be probed begins there"),
                           (f"/bin/probetest:{address:x}:x:{address:x}", "there is no `ret`"),
                           ("/etc/profile:1000:x", "not an executable"), ("/bin/nosuch:1000:x", "no such file")):
        result = guest(f"exec 3<>#probe/clone; echo 'event {function}' >&3 && echo start >&3; [ $? != 0 ]")
        assert result.status == 0, (function, result)
        assert said in result.stderr.lower()


def test_a_program_is_an_ordinary_file():
    """Would find an open of another file with the session's lock held. Such an open may take this lock again (counts, outstanding), take a lock of
    the wrong rank (clone, alloc), or wait (the FIFO, the console)."""
    others = "#probe/1/counts", "#probe/1/outstanding", "#probe/clone", "#debug/alloc", "/dev/cons", "/dev/fd/0", "/tmp/fifo", "/tmp"
    result = guest("mkfifo /tmp/fifo; exec 3<>#probe/clone\n" + "\n".join(f"echo 'count {path}:1000:f\nstart' >&3" for path in others)
                   + "\nls '#probe'", "--variant", "debug")
    assert re.findall(r'"(\S+)": not an ordinary file', result.stderr) == list(others), result
    assert result.stdout.split() == ["1", "clone", "functions"], result
