"""The quoted outputs of the documents: finds them, and compares them with what their commands print.

A document quotes an output in a block of indented lines. A comment before the block, the marker, says how the block is made:

    <!-- typed: OPTIONS -->       the lines of the block that begin with `# ` or `$ ` are typed in a guest that `scripts/guest OPTIONS` boots;
                                  below each of these lines is its output
    <!-- host: -->                the lines that begin with `$ ` are run on the host, in the repository's folder
    <!-- output: COMMAND -->      the block is the output of COMMAND, which is run on the host. Lines of the block that begin with `$ `, `# ` or
                                  `(gdb) ` are for the reader, and not compared
    <!-- by hand: REASON -->      no command can repeat the block

`slow` before the first word marks a block that takes many seconds. `near` marks measured figures: a check lets each number differ by a
tenth. A marker may continue on further lines.

A line of only `…` is a cut: it matches any number of lines. A `…` within a line matches any text.
"""
import dataclasses
import re

MARKER = re.compile(r"<!-- (?P<slow>slow )?(?P<near>near )?(?P<kind>typed|host|output|by hand):(?P<words>.*?)-->[ ]*\n\n?", re.DOTALL)
BLOCK_LINE = re.compile(r" {4}|\t")
COMMAND = re.compile(r"(?:[$#]|\(gdb\)) ")
CUT = "…"
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
NEAR = 0.1

# Text that differs between two runs of a command.
VARYING = [(re.compile(pattern), to) for pattern, to in [
    (r"\brip [0-9a-f]+ rsp [0-9a-f]+", "rip ADDRESS rsp ADDRESS"),
    (r"\b0x[0-9a-f]{5,16}\b", "ADDRESS"),
    (r"\b[0-9a-f]{40}\b", "BUILD-ID"),
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,16}\b", "ADDRESS"),
    (r"^\[ *\d+\.\d+\] ", "[TIME] "),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b\d+(?:\.\d+)? (?=(?:s|ms|us)\b)", "TIME "),
    (r"\b(age|stopped_us|min|avg|max) \d+", r"\1 TIME"),
    (r"\b([Pp]id|[Pp]rocess|[Tt]hread|[Tt]ask) \d+", r"\1 ID"),
    (r"\b(CPU|cpu) \d+", r"\1 N"),
    (r"\blive \d+ looks\b", "live N looks"),
    (r"\b\d+ of \d+ objects out\b", "N objects out"),
    (r"\bstack \d+ (?=at|in|on|perhaps)", "stack N "),
    (r"\blost: \d+ stacks\b", "lost: N stacks"),
    (r"\b\d+ untraced\b", "N untraced"),
    (r"\btraced: \d+ caches and arenas, \d+ allocations\b", "traced: N caches and arenas, N allocations"),
    (r"\b\d+ bytes in \d+ objects of (?=\S+, lost in N untraced)", "N bytes in N objects of "),
    (r"\b\d+ objects, \d+ bytes of (?=\S+ in N untraced runs)", "N objects, N bytes of "),
]]
# Text that differs between two builds of the kernel: see `loosely` of `masked`.
BUILT = [(re.compile(pattern), to) for pattern, to in [
    (r"(?<=[\w>])\+0x[0-9a-f]+", "+OFFSET"),
    (r"(\.(?:cc|c|h|S|py|in)):\d+", r"\1:LINE"),
    (r"\binstruction \d+ of the run", "instruction N of the run"),
]]
FRAME = re.compile(r"(?:ADDRESS )?\S.*?(?:\+OFFSET| \(inlined\))(?: |$)|ADDRESS \[/|\w[\w:~<>]* {1,2}(?:kern|user|build|dash)/\S+:LINE$")


class QuoteError(Exception):
    """A marker is wrong, or a quote cannot be brought up to date; the message says where."""


@dataclasses.dataclass
class Quote:
    """A marked block of a document."""
    path: str
    start: int          # number of the block's first line, from 1
    lines: list         # the block, with its indentation
    kind: str = ""      # typed, host, output, by hand; empty if the block has no marker
    words: str = ""     # text of the marker after the colon
    slow: bool = False
    near: bool = False

    @property
    def name(self):
        return f"{self.path}:{self.start}"

    @property
    def indent(self):
        return re.match(r"\s*", self.lines[0]).group()[:4] if self.lines else "    "

    def bare(self):
        """The lines without the block's indentation."""
        return [line[4:] if line.startswith("    ") else line for line in self.lines]

    def parts(self):
        """Returns [(command, lines)]: each command of the block with the lines that follow it. A first command of None has the lines before
        the first command. A command that ends with a backslash continues on the next line, and one with `<<'END'` up to the line `END`."""
        parts, end = [(None, [])], None
        for line in self.bare():
            if end:
                parts[-1] = (parts[-1][0] + "\n" + line, [])
                end = None if line == end else end
            elif parts[-1][0] and not parts[-1][1] and parts[-1][0].endswith("\\"):
                parts[-1] = (parts[-1][0] + "\n" + line, [])
            elif COMMAND.match(line):
                parts.append((line, []))
                end = (re.search(r"<<'(\w+)'", line) or [None, None])[1]
            else:
                parts[-1][1].append(line)
        return parts


def command_of(line):
    """Returns the command in a line of a block, without its prompt."""
    return COMMAND.sub("", line, count=1)


def quotes_of(path, text):
    """Returns the quotes of the document `text`: every block of indented lines, with its marker if it has one. Raises QuoteError if a marker
    has no block."""
    markers = {text.count("\n", 0, found.end()): found for found in MARKER.finditer(text)}
    lines, quotes, number = text.split("\n"), [], 0
    while number < len(lines):
        marker = markers.pop(number, None)
        if not BLOCK_LINE.match(lines[number]) or (number and lines[number - 1].strip() and not marker):
            if marker:
                raise QuoteError(f"{path}:{number + 1}: a block belongs behind the marker")
            number += 1
            continue
        end = number
        while end < len(lines) and (BLOCK_LINE.match(lines[end]) or not lines[end].strip()):
            end += 1
        while not lines[end - 1].strip():
            end -= 1
        quote = Quote(path, number + 1, lines[number:end])
        if marker:
            quote.kind, quote.words = marker["kind"], " ".join(marker["words"].split())
            quote.slow, quote.near = bool(marker["slow"]), bool(marker["near"])
        quotes.append(quote)
        number = end
    return quotes


def looks_like_output(quote):
    """True if a block, by its text, quotes an output: it has frames, addresses or a time of the log, or lines below a command."""
    text = "\n".join(line for _, lines in quote.parts() for line in lines)
    if re.search(r"\w\+0x[0-9a-f]+ \[|\b0x[0-9a-f]{16}\b|\bffffffff8[0-9a-f]{7}\b|^\[ *\d+\.\d+\] |^\S+ \S+:\d+$", text, re.MULTILINE):
        return True
    parts = [part for part in quote.parts() if part[0] and not part[0].startswith("(gdb)")]
    return any(line.strip() and not line.startswith(" ") for _, lines in parts for line in lines)


def masked(line, loosely):
    """Returns the line without what differs between two runs; `loosely` also without what differs between two builds of the kernel: offsets in
    functions and numbers of lines. Blanks count as one, and those at the ends not at all."""
    line = " ".join(line.split())
    for pattern, to in VARYING + (BUILT if loosely else []):
        line = pattern.sub(to, line)
    return line


def same_line(quoted, actual):
    """True if two masked lines are the same. A `…` in the quoted line matches any text."""
    if CUT not in quoted:
        return quoted == actual
    return re.fullmatch(".*".join(re.escape(piece) for piece in quoted.split(CUT)), actual) is not None


def near_line(quoted, actual):
    """True if two masked lines are the same, apart from numbers that differ by at most a tenth."""
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(line)] for line in (quoted, actual)]
    return same_line(NUMBER.sub("N", quoted), NUMBER.sub("N", actual)) and all(abs(one - other) <= NEAR * abs(one) for one, other in zip(*numbers))


def segments_of(lines):
    """Splits lines at cuts. Returns (segments, cut_first, cut_last)."""
    segments, cut = [[]], [line.strip() == CUT for line in lines]
    for line, is_cut in zip(lines, cut):
        if is_cut:
            segments.append([])
        else:
            segments[-1].append(line)
    return [segment for segment in segments if segment], bool(cut) and cut[0], bool(cut) and cut[-1]


def comparable(lines, loosely, frames):
    """Returns the masked lines that are compared: no empty ones, and without frames of stacks unless `frames`."""
    result = [masked(line, loosely) for line in lines]
    return [line for line in result if line and (frames or not FRAME.match(masked(line, True)))]


def difference(quoted, actual, loosely=True, frames=True, near=False):
    """Returns None if the quoted lines are the actual ones, apart from cuts and masked text; otherwise the first quoted line that is not
    there, or a word about surplus lines."""
    segments, cut_first, cut_last = segments_of([line for line in quoted if line.strip()])
    segments = [kept for kept in (comparable(segment, loosely, frames) for segment in segments) if kept]
    actual = comparable(actual, loosely, frames)
    position, same = 0, near_line if near else same_line
    for number, segment in enumerate(segments):
        fixed_start, fixed_end = number == 0 and not cut_first, number == len(segments) - 1 and not cut_last
        starts = [len(actual) - len(segment)] if fixed_end else range(position, len(actual) - len(segment) + 1)
        starts = [start for start in starts if start >= position and not (fixed_start and start)]
        found = next((start for start in starts if all(map(same, segment, actual[start:]))), None)
        if found is None:
            return missing_line(segment, actual[position:], same) or "the output has other lines around: " + segment[0]
        position = found + len(segment)
    if not segments and actual and not cut_first:
        return "an output where none is quoted: " + actual[0]
    return None


def missing_line(segment, actual, same):
    return next((line for line in segment if not any(same(line, there) for there in actual)), None)


def kind_of(line):
    """Returns a line's fuzzy form, by which a quoted line finds the line of the output that replaces it."""
    return re.sub(r"[+-]?\d[\d.,]*", "N", masked(line, True))


def renewed(quoted, actual):
    """Returns `quoted` with the lines of the output `actual` in place of those that have changed; cuts stay. Raises QuoteError if a part
    between two cuts cannot be found in the output."""
    while actual and not actual[-1].strip():
        actual = actual[:-1]
    if not any(line.strip() == CUT for line in quoted):
        return actual
    kinds, result, position = [kind_of(line) for line in actual], [], 0
    pieces, piece = [], []
    for line in [*quoted, None]:
        if line is None or line.strip() == CUT:
            pieces += [piece] if piece else []
            pieces += [line] if line is not None else []
            piece = []
        else:
            piece.append(line)
    for number, piece in enumerate(pieces):
        if isinstance(piece, str):
            result.append(piece)
            continue
        wanted = [kind_of(line) for line in piece if line.strip()]
        start = 0 if number == 0 else find(wanted[0], kinds, position)
        end = len(actual) if number == len(pieces) - 1 else find(wanted[-1], kinds, start + len(wanted) - 1) + 1
        result += actual[start:end]
        position = end
    return result


def find(wanted, kinds, position):
    for index in range(max(position, 0), len(kinds)):
        if same_line(wanted, kinds[index]):
            return index
    raise QuoteError(f"no line of the output is like: {wanted}")
