"""Writes and reads folded stacks, the format of Brendan Gregg's FlameGraph, which speedscope and other programs read too.

Each stack has a line: the functions from the outermost to the innermost, separated by semicolons; a
blank; and a number. The program's functions come first, then the kernel's functions. The last name is
the cache, in brackets: `[kmalloc_16]`.

Negative numbers are left out: FlameGraph would draw nonsense, and speedscope refuses such lines. So a
difference has only stacks that have grown. The caller gets the total of the stacks that have shrunk.
"""
import re

from stele.report.profile import Amount, Frame, Key, Profile, ReportError, Source

LINE = re.compile(r"(\S.*) (\d{1,19})")
SOURCE = "folded"  # name of the source of stacks that do not end in a cache


def measure_of(profile, wanted=None):
    """Returns `wanted` if it is not None; otherwise "bytes" if anything has a size, and "objects" if nothing has (references and calls)."""
    return wanted or ("bytes" if any(amount.bytes for amount in profile.amounts.values()) or not profile.amounts else "objects")


def lines_of(profile, measure=None):
    """Returns (lines, total of the negative amounts as a positive number). Negative amounts have no line."""
    measure, sums = measure_of(profile, measure), {}
    for key, amount in profile.amounts.items():
        stack = ";".join([*(word(frame.function) for frame in reversed((*key.frames, *key.user_frames))), f"[{word(key.source)}]"])
        sums[stack] = sums.get(stack, 0) + getattr(amount, measure)
    left_out = -sum(value for value in sums.values() if value < 0)
    return [f"{stack} {value}" for stack, value in sorted(sums.items()) if value > 0], left_out


def word(name):
    """Returns a name without characters that have a meaning in the format."""
    return "".join(c if c.isprintable() else "?" for c in name.replace(";", ":")).strip() or "?"


def write(profile, path, measure=None):
    """Writes the file `path`. Returns the same total of negative amounts as lines_of()."""
    lines, left_out = lines_of(profile, measure)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return left_out


def is_folded(text):
    lines = text.splitlines()
    return bool(lines) and all(LINE.fullmatch(line) for line in lines)


def read(path, text, measure="bytes"):
    """Parses `text` to a Profile. `measure`: "bytes" or "objects", the unit of the numbers. Raises ReportError."""
    if not text.endswith("\n"):
        raise ReportError(f"{path}: cut off: the last line does not end")
    profile = Profile(str(path))
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.fullmatch(line)
        if not match:
            raise ReportError(f"{path}: line {number} is no stack with a number")
        functions = match[1].split(";")
        source = functions.pop()[1:-1] if re.fullmatch(r"\[[^\]]+\]", functions[-1]) and len(functions) > 1 else SOURCE
        frames = tuple(Frame(function, module="") for function in reversed(functions))
        profile.add(Key(source, frames), Amount(**{measure: int(match[2])}))
        profile.sources.setdefault(source, Source(source))
    return profile
