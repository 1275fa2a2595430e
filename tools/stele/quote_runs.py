"""Runs the commands of the documents' quotes (quotes.py), and judges or renews the quotes."""
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from stele.quotes import QuoteError, command_of, difference, quotes_of, renewed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS = 300          # for one command on the host
SEPARATOR = "\x1e\n"   # printed before each typed command
COMPILER = "12"        # gcc that compiled the kernel when the quotes were made: another one inlines other functions


def documents():
    """Returns the documents that may have quotes, relative to ROOT."""
    return ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]


def quotes_in(path):
    return quotes_of(path, (ROOT / path).read_text(encoding="utf-8"))


def same_compiler():
    """True if the host's gcc is the one of the quotes. With another gcc, stacks have other frames, which are then not compared."""
    return subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0].strip() == COMPILER


def without_build(command, folder):
    """Returns a host command of a document so that it builds nothing and writes only into `folder`: all that it needs has been built, and two
    `make` in one folder at once would disturb each other."""
    command = re.sub(r"\bscripts/guest (?!--no-build)", "scripts/guest --no-build ", command)
    if not re.match(r"make (leaktest|leaksweep)\b", command):
        return command
    words = shlex.split(command.replace("\\\n", " "))
    values = dict(word.split("=", 1) for word in words[2:])
    options = {"QUICK": ["--quick"], "TOGETHER": ["--together"], "FREES": ["--frees"]}
    program = [f"scripts/{words[1]}", "--no-build", "--report", f"{folder}/report.txt"]
    for key, value in values.items():
        program += options.get(key, [] if key == "CMD" else [f"--{key.lower()}", value])
    return shlex.join([*program, values["CMD"]])


def host(command, folder):
    """Runs a command in ROOT and returns its standard output. $TMP is `folder`, a folder for files."""
    run = subprocess.run(["bash", "-c", without_build(command, folder)], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         errors="replace", timeout=SECONDS, env=os.environ | {"TMP": folder}, check=False)
    if run.returncode in (124, 125, 126, 127) or not run.stdout:
        raise QuoteError(f"`{command}` printed nothing usable, status {run.returncode}: {run.stderr[-500:]}")
    return run.stdout


def typed(options, commands, folder):
    """Types the commands in a guest of one CPU. Returns the output of each."""
    # The shell of a script runs `cat #mem/x` as the shell at the prompt does. Standard error goes to the terminal there.
    script = "exec 2>&1\n" + "".join(f"printf '\\036\\n'\n{command}\n" for command in commands)
    output = host(f"scripts/guest --smp 1 --log /dev/null {options} -c {shlex.quote(script)}", folder)
    return re.sub(r"^/etc/script: \d+: ", "sh: 1: ", output, flags=re.MULTILINE).split(SEPARATOR)[1:]


def results(quote, folder):
    """Runs a quote's commands. Returns [(shown, quoted, actual)]: `shown` are the block's lines that are kept as they are, `quoted` the lines
    below them, and `actual` the lines that their command has printed now."""
    parts = quote.parts()
    if quote.kind == "output":
        shown = [line for command, _ in parts if command for line in command.split("\n")]
        quoted = [line for _, lines in parts for line in lines]
        return [(shown, quoted, host(quote.words, folder).splitlines())]
    parts = [(command, lines) for command, lines in parts if command]
    commands = [command_of(command) for command, _ in parts]
    if not commands:
        raise QuoteError(f"{quote.name}: no line of the block is a command")
    outputs = typed(quote.words, commands, folder) if quote.kind == "typed" else [host(command, folder) for command in commands]
    if len(outputs) != len(commands):
        raise QuoteError(f"{quote.name}: {len(outputs)} outputs of {len(commands)} commands: the script ended early")
    return [(command.split("\n"), lines, output.splitlines()) for (command, lines), output in zip(parts, outputs)]


def check(quote):
    """Returns None if a quote is what its commands print, otherwise a text that says where they differ."""
    with tempfile.TemporaryDirectory(prefix="stele-docs-") as folder:
        for shown, quoted, actual in results(quote, folder):
            what = difference(quoted, actual, frames=same_compiler(), near=quote.near)
            if what:
                output = "\n".join(actual)
                return f"{quote.name}: {' '.join(shown)}\n  does not print: {what}\n  it prints:\n{output}"
    return None


def renew(quote):
    """Returns the lines of the block as its commands print them now, or None if they are the same."""
    with tempfile.TemporaryDirectory(prefix="stele-docs-") as folder:
        lines, changed = [], False
        for shown, quoted, actual in results(quote, folder):
            lines += shown
            if difference(quoted, actual, loosely=False) is None:
                lines += quoted
                continue
            try:
                lines += renewed(quoted, actual)
            except QuoteError as error:
                output = "\n".join(actual)
                raise QuoteError(f"{quote.name}: cannot be renewed: {error}\n{output}") from error
            changed = True
    keep_tabs = any("\t" in line for line in quote.lines)
    return [(quote.indent + (line if keep_tabs else line.expandtabs(8))).rstrip() for line in lines] if changed else None
