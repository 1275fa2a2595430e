"""Runs scripts/report with damaged, cut and foreign files. scripts/report prints a complete report, or
one line of error with status 2. It never prints a traceback, and never takes more memory than the
file's size justifies."""
import gzip
import os
import resource
import struct
import subprocess
import sys

import pytest

import report_fakes as fakes
from report_fakes import dump, records, source
from stele.report import command, folded, reading, text
from stele.report.profile import ReportError
from stele.tracedump import CONTEXT, FRAME, HEADER, MAGIC, SECTION, STACK, TraceDump, TraceDumpError
from tracedump_reader_test import binary

SMALL = dump(source("chan", records(2)), source("ref.chan", records(1, 0), "references"), source("pipe", records(1), sample=512, pid=3, seen=2, filtered=1))
CORE = struct.pack("<4sBB10xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 4, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0) \
    + struct.pack("<IIQQQQQQ", 4, 0, 176, 0, 0, 16, 16, 0) + struct.pack("<IIQQQQQQ", 1, 0, 192, 4096, 0, 16, 16, 0) + b"n" * 16 + b"m" * 16
MEMORY = 512 << 20  # memory limit of a command


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Returns a function that reads a file with the given bytes, and makes text reports and folded
    stacks from the file."""
    lookup = fakes.lookup(tmp_path, monkeypatch)

    with fakes.in_memory() as (path, write):
        def read_it(data):
            write(data)
            profile = reading.read(path, lookup)
            for by in ("stack", "function"):
                list(text.lines_of(profile, by))
            folded.lines_of(profile)
            return profile
        yield read_it


@pytest.mark.parametrize("whole", (SMALL, binary(), CORE), ids=("dump", "kernel's dump", "core"))
def test_each_byte_changed(read, whole):
    refused = 0
    for at in range(len(whole)):
        for byte in {0, 0xFF, whole[at] ^ 1, whole[at] ^ 0x80} - {whole[at]}:
            try:
                read(whole[:at] + bytes([byte]) + whole[at + 1:])
            except ReportError as error:
                assert "\n" not in str(error) and str(error).startswith("/proc/self/fd/")
                refused += 1
    assert refused > len(whole)


@pytest.mark.parametrize("whole", (SMALL, binary(), CORE), ids=("dump", "kernel's dump", "core"))
def test_each_length_cut(read, whole):
    for length in range(len(whole)):
        with pytest.raises(ReportError):
            read(whole[:length])
    with pytest.raises(ReportError):
        read(whole + b"\0" if whole is not CORE else whole)


def test_the_whole_is_read(read):
    """The undamaged dumps can be read, so damaged ones are refused because of the damage. The undamaged
    core is refused only because its kernel is not in the build folder."""
    assert read(SMALL).total().objects > 3 and read(binary()).total().objects > 2
    with pytest.raises(ReportError, match="no core of a kernel that is here"):
        read(CORE)


def section(tag, item_size, count, size=None, data=b""):
    return SECTION.pack(tag, item_size, count, len(data) if size is None else size, 0, 0) + data


def file_of(*sections, count=None):
    data = b"".join(sections)
    return HEADER.pack(MAGIC, 3, HEADER.size, SECTION.size, len(sections) if count is None else count, HEADER.size + len(data), 0, 0, 0, 0, 0, bytes(32), 0, 0) + data


MANY = 20_000
HUGE = {
    "sections": file_of(count=0xFFFFFFFF),
    "items of nothing": file_of(section(4, 0, 1 << 60)),
    "items": file_of(section(4, 8, 1 << 60)),
    "items around the end of the numbers": file_of(section(4, 1 << 31, 1 << 33, 0)),
    "characters of nothing": file_of(section(5, 0, 1 << 60)),
    "size": file_of(section(4, 8, 1, (1 << 64) - 8)),
    # "stacks": each stack claims all frames of the file. A reader that copied the frames of each
    # stack would need 6 GiB for a file of 640 KiB. "names": each context claims nearly all strings of
    # the file. A reader that copied the strings of each context would need 13 GiB for a file of 2 MiB.
    "stacks": file_of(section(4, 8, MANY, data=FRAME.pack(1) * MANY),
                      section(3, STACK.size, MANY, data=b"".join(STACK.pack(i + 1, 1, 0, MANY, 0) for i in range(MANY)))),
    "names": file_of(section(5, 1, 640_000, data=b"n" * 639_999 + b"\0"),
                     section(2, CONTEXT.size, MANY, data=b"".join(CONTEXT.pack(i + 1, 2, 1, i, i, 0, 0, 0, bytes(32)) for i in range(MANY)))),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_numbers_take_no_memory(name, tmp_path):
    """A header claims more items than the file has, or many items share the same data."""
    with pytest.raises(TraceDumpError):
        TraceDump(HUGE[name])
    path = tmp_path / "file"
    path.write_bytes(HUGE[name])
    run = limited("scripts/report", str(path))
    assert run.returncode == 2 and run.stderr.startswith(f"report: {path}: ") and run.stderr.count("\n") == 1, run


def limited(*words):
    """Runs a command with at most MEMORY bytes of address space and 20 s of CPU time."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "STELE_BUILD": "/none"},
                          preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)), resource.setrlimit(resource.RLIMIT_CPU, (20, 20))))


def test_marks_without_an_end_take_no_memory(read):
    with pytest.raises(ReportError, match="there is no mark"):
        read(b"kmemtrace x state stopped objsize 64 depth 32 mark 4\nseen 1 recorded 1 dropped 0 filtered 0 freed 0 cleared 0 live 1 bytes 1\n\n"
             b"1 bytes in 1 allocations from stack\n\tf+0x1 [kernel]\n\tage ms min 1 avg 1 max 1, marks 0-99999999999999, contexts pid 1 x\n"
             b"\t0xffff800001234000 size 1 age 1 mark 1 cpu 0 pid 1 x\n")


@pytest.fixture
def foreign(tmp_path):
    """Returns {kind: path} of files that are not dumps."""
    contents = {"empty": b"", "zeros": bytes(9999), "random": bytes(range(128, 256)) * 40, "text": b"Dear reader,\n", "cut": SMALL[:-8], "more": SMALL + b"more",
                "program": open("/bin/true", "rb").read(), "gzip": gzip.compress(b"not a profile"), "cut gzip": gzip.compress(SMALL)[:-9],
                "magic": MAGIC, "json": b'{"commands": [', "one line": b"kmemtrace chan state running objsize 64 depth 32 mark 0\n"}
    paths = {name: tmp_path / name for name in (*contents, "folder", "fifo", "not there")}
    for name, data in contents.items():
        paths[name].write_bytes(data)
    paths["folder"].mkdir()
    os.mkfifo(paths["fifo"])
    return paths


def test_foreign_files_are_one_line_and_2(foreign, tmp_path, monkeypatch, capsys):
    """Each file is tried as the input of a text report, as the base of a comparison, and as the
    input of reports in other formats. A pipe without a writer is refused at once."""
    monkeypatch.setenv("STELE_BUILD", str(tmp_path))
    whole = tmp_path / "whole"
    whole.write_bytes(SMALL)
    for path in foreign.values():
        for words in ([path], ["--base", path, whole], ["--format", "folded", path], ["--format", "all", "-o", tmp_path / "out", path]):
            assert command.main([str(word) for word in words]) == 2, words
            said = capsys.readouterr()
            assert said.out == "" and said.err.startswith(f"report: {path}: ") and said.err.count("\n") == 1, said
    assert not list(tmp_path.glob("out*"))
    assert command.main([str(whole)]) == 0


def test_a_kernel_or_programs_that_are_none(foreign, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STELE_BUILD", str(tmp_path))
    whole = tmp_path / "whole"
    whole.write_bytes(SMALL)
    for name in ("empty", "text", "program", "folder", "not there"):
        assert command.main(["--kernel", str(foreign[name]), str(whole)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"report: {foreign[name]}: ") and error.count("\n") == 1, error
    assert command.main(["--programs", str(foreign["not there"]), str(whole)]) == 0


def test_the_reader_of_dumps_itself(foreign):
    for name in ("empty", "text", "cut", "more", "folder", "not there"):
        run = limited("tools/stele/tracedump.py", str(foreign[name]))
        assert run.returncode == 2 and run.stderr.startswith(f"tracedump: {foreign[name]}: ") and run.stderr.count("\n") == 1, run
