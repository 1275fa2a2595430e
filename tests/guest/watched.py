"""Shared by the tests of kmemwatch: loads, and a parser of its reports."""
import re

# `load MICROSECONDS` runs two loops of pipelines in the background, with pauses of this length.
# `every MICROSECONDS COMMAND` repeats a command in the background. `unload` ends all of them.
LOADS = """
load() {
  (while :; do ls / | cat | wc -l; usleep $1; done > /dev/null) & loads="$loads $!"
  (while :; do seq 1 20 | sort -r | tail -n 3 > /tmp/x; grep 1 /tmp/x | cat; rm /tmp/x; usleep $1; done > /dev/null) & loads="$loads $!"
}
every() { (while :; do eval "$2"; usleep $1; done) & loads="$loads $!"; }
unload() { kill $loads 2> /dev/null; }
"""
HEADING = re.compile(r"Watching (\d+) caches and arenas every ([\d.]+) s, in windows of ([\d.]+) s; first judgement after ([\d.]+) s\.")
REPORT = re.compile(r"\[\d\d:\d\d:\d\d\] after (\d+) s: (nothing grows|too early to judge|\d+ grows?)(?:; (\d+) samples missed)?")
TITLE = "NAME                   LIVE  OBJECTS/S  95 %                  BYTES/S      P  STATE"
LINE = re.compile(r"(\S+) +(\d+) +(-?[\d.]+)  (-?[\d.]+) to (-?[\d.]+) +(-?[\d.]+) +([\d.e-]+)(?:  (.+))?")


class Line:
    def __init__(self, found):
        self.name, self.live, self.state = found[1], int(found[2]), found[8] or ""
        self.rate, self.low, self.high, self.bytes, self.p = map(float, found.groups()[2:7])


def reports_in(output):
    """Returns [(seconds, verdict, {name of a cache or arena: Line})], one for each report. Fails if a line does not match the format."""
    first, *lines = output.splitlines()
    assert HEADING.fullmatch(first), output
    reports = []
    for line in lines:
        assert len(line) <= 100, line
        if found := REPORT.fullmatch(line):
            reports.append((int(found[1]), found[2], {}))
        elif line == TITLE:
            assert reports[-1][2] == {}, output
        elif found := LINE.fullmatch(line):
            reports[-1][2][found[1]] = Line(found)
        else:
            raise AssertionError(f"unknown line {line!r} in\n{output}")
    return reports


def accused_in(output):
    """Returns the names of the caches and arenas that grow or grew in any of the reports."""
    return {name for _, _, lines in reports_in(output) for name, line in lines.items() if line.state.startswith(("grows", "grew"))}
