"""scripts/report: reads dumps and the output of Stele's tools, and writes reports.

    scripts/report [options] FILE              writes a report of FILE
    scripts/report --base FILE0 FILE           writes the difference: FILE minus FILE0
    scripts/report merge …, history …          see scripts/report merge --help, scripts/report history --help

FILE is a copy of #mem/tracedump or #mem/kmemtrace/NAME, a core, report.json of make leaktest, the
output of memleak or stackcount, a pprof profile, or folded stacks; its content determines the kind.
Exit status: 0, or 2 with one line that gives the reason (docs/report.md).
"""
import argparse
import contextlib
import importlib
import os
import pathlib
import sys

from stele.report import folded, reading, text
from stele.report.difference import difference
from stele.report.lookup import Lookup
from stele.report.profile import ReportError

# Subcommands: stele.report.WORD has main(arguments), which returns the exit status.
SUBCOMMANDS = ("merge", "history")
FORMATS = {"text": ".txt", "folded": ".folded", "pprof": ".pb.gz", "html": ".html"}


def arguments(words):
    parser = argparse.ArgumentParser(prog="report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=[*FORMATS, "all"], default="text", help="of the report (text); all: each, beside the others")
    parser.add_argument("--base", metavar="FILE", help="show the difference from FILE, in any format that can be read")
    parser.add_argument("--by", choices=text.BY, default="stack", help="text: group by (stack)")
    parser.add_argument("--measure", choices=("bytes", "objects"), help="folded: unit of the numbers, also of input (bytes, or objects if nothing has a size)")
    parser.add_argument("--kernel", metavar="ELF", help="the kernel's ELF file (the one in build/ with the build id)")
    parser.add_argument("--programs", metavar="DIR", help="a folder with the programs' ELF files (build/user/bin)")
    parser.add_argument("-o", "--output", metavar="FILE", type=pathlib.Path, help="write the report to FILE (standard output); with all: FILE.txt, FILE.folded, …")
    parser.add_argument("file", metavar="FILE", help="the file to read")
    options = parser.parse_args(words)
    if options.format in ("pprof", "html", "all") and not options.output:
        parser.error(f"--format {options.format} needs -o FILE")
    if options.base and options.by == "process":
        parser.error("--by process: processes of two files cannot be compared")
    return options


def main(words=None):
    words = sys.argv[1:] if words is None else words
    try:
        if words[:1] and words[0] in SUBCOMMANDS:
            return subcommand(words[0], words[1:])
        run(arguments(words))
        return 0
    except ReportError as error:
        print(f"report: {one_line(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python's flush at exit fails as well
        return 2


def subcommand(name, words):
    with needs(name):
        module = importlib.import_module(f"stele.report.{name}")
    return module.main(words)


@contextlib.contextmanager
def needs(what):
    """A context manager that turns an ImportError into a ReportError. Its message says that `what` cannot be made, because a module, or a file that
    the module needs, is missing."""
    try:
        yield
    except ImportError as error:
        raise ReportError(f"{what}: cannot be made here: {error}") from error


def run(options):
    lookup = Lookup(options.kernel, [options.programs] if options.programs else None)
    profile = reading.read(options.file, lookup, options.measure or "bytes")
    if options.base:
        profile = difference(profile, reading.read(options.base, lookup, options.measure or "bytes"))
    if options.format == "all":
        errors = []
        for kind, suffix in FORMATS.items():
            try:
                write(kind, profile, pathlib.Path(f"{options.output}{suffix}"), options)
            except ReportError as error:
                errors.append(one_line(error))
        if errors:
            raise ReportError("; ".join(errors))
    else:
        write(options.format, profile, options.output, options)


def write(kind, profile, path, options):
    """Writes `profile` in the format `kind` to `path`; None: to standard output. Raises ReportError."""
    try:
        if kind == "text":
            put(text.lines_of(profile, options.by, options.base), path)
        elif kind == "folded":
            lines, left_out = folded.lines_of(profile, options.measure)
            put(lines, path)
            if left_out:
                print(f"report: {left_out} {folded.measure_of(profile, options.measure)} less are not in the folded stacks,"
                      " which have no negative numbers", file=sys.stderr)
        elif kind == "pprof":
            with needs("pprof"):
                from stele.report import pprof
            pprof.write(profile, path)
        else:
            with needs("html"):
                from stele.report import page
            page.write(profile, path, options.base)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ReportError(f"{path or 'standard output'}: {error.strerror or error}") from error


def put(lines, path):
    data = "".join(line + "\n" for line in lines).encode("utf-8", "replace")
    if path:
        path.write_bytes(data)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


def one_line(error):
    return " ".join(str(error).split())
