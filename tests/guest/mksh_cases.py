"""mksh's own tests, check.t, without Perl.

mksh's program check.pl describes the format of check.t in its first comment: tags with values, one case after the other. This module parses
the cases and judges their results. It writes a shell script that runs the cases one after the other on any system with a shell, `env` and
`timeout`: in the guest, or on the host for comparison. check.t has bytes of several encodings, so all text is read as latin-1.
"""
import dataclasses
import pathlib
import re
import shlex

LINE = re.compile(r"([-\w]+):\s*(|\S|\S.*\S)\s*$")
MANY_LINES = {"description", "arguments", "script", "stdin", "perl-setup", "env-setup", "file-setup", "expected-stdout", "expected-stdout-pattern",
              "expected-stderr", "expected-stderr-pattern", "category"}
CHOPPED = {"arguments", "env-setup"}  # fields whose values lose the newline of their last line

# The categories that mksh's Build.sh gives check.pl for a build with our options, and the categories
# that check.pl adds.
CATEGORIES = {"shell:legacy-no", "int:32", "shell:textmode-no", "shell:binmode-yes", "stdout-ed", "no-stderr-ed", "shell:ebcdic-no",
              "shell:ascii-yes"}

SECONDS = 20  # default limit for a case


@dataclasses.dataclass
class Outcome:
    status: int
    stdout: str
    stderr: str


class Case:
    def __init__(self, fields, setups):
        self.fields = fields
        self.setups = setups  # values of file-setup
        self.name = fields["name"]
        self.limit = int(fields.get("time-limit", SECONDS))

    def __repr__(self):
        return self.name

    def fits(self, categories):
        """True if check.pl would run the case for a shell of these categories."""
        if "category" not in self.fields:
            return True
        fits = False
        for word in self.fields["category"].strip().split(","):
            if word.startswith("!"):
                if word[1:] in categories:
                    return False
                fits = True
            else:
                fits = fits or word in categories
        return fits

    def _list(self, field):
        """Returns the elements of a list field. The first character of the field's value separates the elements."""
        value = self.fields.get(field, "")
        return value[1:-1].split(value[0]) if value else []

    def arguments(self):
        return self._list("arguments")

    def environment(self):
        """Returns (variables to set, variables to unset)."""
        words = [word.replace("@utflocale@", "C.UTF-8") for word in self._list("env-setup") if word]
        return [word for word in words if "=" in word], [word for word in words if "=" not in word]

    def faults(self, outcome):
        """Returns the differences between outcome and expectation, as texts; empty if there are none."""
        faults = []
        expected = self.fields.get("expected-exit", "0")
        if expected.isdigit():
            expected = f"e == {expected}"
        operator, number = re.fullmatch(r"e (==|!=|>) (\d+)", expected).groups()
        if not {"==": outcome.status == int(number), "!=": outcome.status != int(number), ">": outcome.status > int(number)}[operator]:
            faults.append(f"status {outcome.status}, not {expected}")
        for name, got in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
            pattern = self.fields.get(f"expected-{name}-pattern")
            if pattern is None:
                wanted = self.fields.get(f"expected-{name}", "")
                if got != wanted:
                    faults.append(f"{name} is {got!r}, not {wanted!r}")
                continue
            negated, body = re.fullmatch(r"(!?)/(.*)/", pattern.strip(), re.DOTALL).groups()
            if bool(re.search(body, got)) == bool(negated):
                faults.append(f"{name} is {got!r}, does not fit {pattern!r}")
        return faults


def parse(path):
    """Returns the cases of a file."""
    cases, fields, setups = [], {}, []
    lines = iter(pathlib.Path(path).read_bytes().decode("latin-1").split("\n"))
    line = next(lines)
    while line is not None:
        if not line.strip() or line.lstrip(" ").startswith("#"):
            line = next(lines, None)
        elif line.strip() == "---":
            cases.append(Case(fields, setups))
            fields, setups = {}, []
            line = next(lines, None)
        else:
            field, value = LINE.match(line).groups()
            line = next(lines, None)
            chopped = field in CHOPPED or value == "!"
            if field == "file-setup":
                chopped, value = value.startswith("!"), value.removeprefix("!")
            if field in MANY_LINES and (value in ("", "!") or field == "file-setup"):
                value = "" if value == "!" else value
                while line is not None and line.startswith("\t"):
                    value += line[1:] + "\n"
                    line = next(lines, None)
                value = value.removesuffix("\n") if chopped else value
            if field == "file-setup":
                setups.append(value)
            else:
                fields[field] = value
    return cases


def _set_up(value, where):
    """Returns a pair. The first element is the shell commands that create a file, a folder or a link. The second element is the contents of the file,
    or None for a folder or a link. The commands copy the contents from the path `where`. `value` is the value of a file-setup tag: kind, permissions,
    quoted name, and contents or target."""
    kind, mode, rest = re.match(r"\s*(\S+)\s+(\S+)\s+(.*)", value, re.DOTALL).groups()
    name, _, content = rest[1:].partition(rest[0])
    name = shlex.quote(name)
    if kind == "dir":
        return f"mkdir -- {name}; chmod {mode} -- {name}", None
    if kind == "symlink":
        return f"ln -s -- {shlex.quote(content)} {name}", None
    return f"cat {where} >{name}; chmod {mode} -- {name}", content


class Run:
    """A run of cases: a folder with the script `all.sh`, which runs the cases, and the script's input files."""

    BOUNDARY = "\n--- 3c1d1f6e mksh case "

    def __init__(self, cases, folder, seen_as, shell, work, timeout="timeout -s KILL"):
        """Writes the script and its input files to `folder`. The other paths are valid on the system where the script runs. `seen_as` is the path of
        `folder` on that system. `shell` is the shell under test. `work` is a folder that the script creates and removes. `timeout` is a command that
        takes a number of seconds and another command. `timeout` runs this command, and kills it when the seconds are over."""
        self.cases = cases
        self.folder = pathlib.Path(folder)
        self.seen_as, self.shell, self.timeout = seen_as, str(shell), timeout
        boundary = self.BOUNDARY.replace("\n", "\\n")
        script = [f"mkdir {work}; umask 022; cd {work}; printf '{boundary}errors\\n' >errors"]
        for number, case in enumerate(cases):
            script += [f"mkdir {number}; cd {number}", *self._commands(number, case)]
            script.append(f"printf '{boundary}{number} %d\\n' $? >../{number}.status; cd ..")
        parts = " ".join(f"{number}.status {number}.out errors {number}.err" for number in range(len(cases)))
        script.append(f"cat {parts}; cd /; rm -rf {work}\n")
        (self.folder / "all.sh").write_text("\n".join(script), encoding="latin-1", newline="")

    def _give(self, name, content):
        """Writes an input file of the script. Returns the file's path on the system where the script runs."""
        (self.folder / name).write_text(content, encoding="latin-1", newline="")
        return f"{self.seen_as}/{name}"

    def _commands(self, number, case):
        """Returns the shell commands of a case. The script runs them in a separate folder. The last command runs the shell under test."""
        commands = []
        for i, value in enumerate(case.setups):
            command, content = _set_up(value, f"{self.seen_as}/{number}.file{i}")
            if content is not None:
                self._give(f"{number}.file{i}", content)
            commands.append(command)
        if "perl-setup" in case.fields:
            mode, name = re.fullmatch(r'chmod\((\d+), "(\w+)"\);', case.fields["perl-setup"].strip()).groups()
            commands.append(f"chmod {mode} -- {name}")
        variables = {"HOME": "/home", "LOGNAME": "root", "PATH": "/bin:/usr/bin", "SHELL": "/bin/sh", "USER": "root", "ENV": "/nonexistant",
                     "__progname": self.shell, "__perlname": "/usr/bin/perl", "CYGWIN": "nodosfilewarning"}
        to_set, to_unset = case.environment()
        command = ["env", "-i", *(f"{name}={value}" for name, value in variables.items() if name not in to_unset), *to_set,
                   *self.timeout.split(), str(case.limit), self.shell, *case.arguments()]
        if "script" in case.fields:
            command.append(self._give(f"{number}.script", case.fields["script"]))
        stdin = self._give(f"{number}.in", case.fields["stdin"]) if "stdin" in case.fields else "/dev/null"
        return [*commands, f"{shlex.join(command)} <{stdin} >../{number}.out 2>../{number}.err"]

    def outcomes(self, output):
        """Returns {case: outcome} from the script's output (bytes). A case that did not run is
        missing."""
        outcomes = {}
        parts = output.decode("latin-1").split(self.BOUNDARY)[1:]
        for first, second in zip(parts[::2], parts[1::2]):
            head, _, stdout = first.partition("\n")
            number, status = map(int, head.split())
            outcomes[self.cases[number]] = Outcome(status, stdout, second.removeprefix("errors\n"))
        return outcomes
