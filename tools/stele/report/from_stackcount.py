"""Makes a Profile from the output of the guest's program stackcount (docs/stackcount.md). The Profile counts calls as objects without a size.

With -i the output has several summaries. They are added up, because each has only the calls since the previous summary. Without -d no line separates
the frames of the kernel from the frames of the program. In this case, the frame system_call_entry or trap_entry is taken as the kernel's last frame.
"""
import re

from stele.report.profile import Amount, Frame, Key, Profile, ReportError, Source

HEADING = re.compile(r"^Tracing \d+ functions for \"(.*)\"\.\.\. Hit Ctrl-C to end\.$", re.MULTILINE)
ENTRIES = ("system_call_entry", "trap_entry")
PROCESS, COUNT = re.compile(r"    (.+) \[(\d+)\]"), re.compile(r"    (\d{1,19})")


def read(path, text):
    """Parses stackcount's output to a Profile. Raises ReportError."""
    heading = list(HEADING.finditer(text))[-1]
    name = heading[1]
    profile, lines = Profile(str(path), sources={name: Source(name, "calls")}), []
    body = text[heading.end() + 1:].split("\n")
    with_addresses = any(re.match(r"  (?=.{16} \S)[0-9a-f]+ +\S", line) for line in body)
    for line in body:
        if line == "Detaching...":
            return profile
        if count := COUNT.fullmatch(line):
            if not lines:
                raise ReportError(f"{path}: a count without a stack")
            profile.add(key_of(name, lines, with_addresses), Amount(int(count[1]), 0, int(count[1])))
            lines = []
        elif line.startswith("  "):
            lines.append(line)
        elif line.startswith("Lost: "):
            profile.incomplete += line.removeprefix("Lost: ").split(", ")
        elif line.startswith("Left out: "):
            profile.incomplete.append(line.removeprefix("Left out: "))
        elif not re.fullmatch(r"(\^C|\d\d:\d\d:\d\d)?", line):
            raise ReportError(f"{path}: not what stackcount prints: {line[:60]!r}")
    raise ReportError(f"{path}: cut off: stackcount ends with Detaching...")


def key_of(name, lines, with_addresses):
    process = ""
    if match := PROCESS.fullmatch(lines[-1]):
        process = f"pid {match[2]} {match[1]}"
        lines = lines[:-1]
    split = lines.index("    --") if "    --" in lines else None
    functions = [function_of(line, with_addresses) for line in lines if line != "    --"]
    if split is None:
        split = max((i + 1 for i, function in enumerate(functions) if function in ENTRIES), default=0 if is_of_program(name) else len(functions))
    return Key(name, tuple(map(Frame, functions[:split])), tuple(Frame(function, module="program") for function in functions[split:]), process)


def is_of_program(name):
    """True if the pattern has the form `program:function`, with a single colon; two colons are part of a C++ name."""
    return bool(re.search(r"(?<!:):(?!:)", name.removeprefix("p:")))


def function_of(line, with_addresses):
    text = re.sub(r"^[0-9a-f]+ +", "", line[2:]) if with_addresses else line[2:]
    return re.sub(r"\+0x[0-9a-f]+$", "", text.strip()) or "?"
