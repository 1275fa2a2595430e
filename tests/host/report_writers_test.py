"""The output of scripts/report: text, folded stacks and differences. Also the files that a leak
test writes in addition to its report."""
import re
from types import SimpleNamespace

import pytest

import leak_fakes
import report_fakes as fakes
from report_fakes import key, profile
from stele.leaks import judge
from stele.report import command, folded, leak_files, text
from stele.report.difference import difference
from stele.report.profile import Amount, Frame, Key, Source


def lines(*arguments, **options):
    return list(text.lines_of(*arguments, **options))


def test_the_total_comes_first_then_what_is_missing():
    shown = lines(profile({key(): (2, 384), key("chan", "Chan::create"): (1, 136)}, incomplete=["this", "that"]))
    assert shown[:4] == ["a dump", "520 bytes in 3 objects from 2 stacks of 2 sources", "incomplete: this", "            that"]
    assert lines(profile({}))[1:3] == ["0 objects from 0 stacks of 0 sources", "complete"]


def test_by_stack_most_bytes_first_with_all_who_allocated():
    shown = lines(profile({key(mark=1, address=1): (1, 192), key(mark=2, process="pid 4 sh", address=2): (2, 384), key("chan", "Chan::create"): (1, 136)},
                          holders={key(mark=1, address=1): ["a reference"]}))
    assert shown[4:] == ["576 bytes in 3 objects of leaky from stack", "    leaky_open", "    sys_open",
                         "    marks 1, 2; age below 1 s; by pid 4 sh, pid 3 leakdemo", "    called from /bin/x, 576 bytes in 3 objects", "        main",
                         "    held by a reference", "", "136 bytes in 1 objects of chan from stack", "    Chan::create", "    sys_open",
                         "    age below 1 s; by pid 3 leakdemo", "    called from /bin/x, 136 bytes in 1 objects", "        main", ""]


def test_the_line_of_the_source_stands_under_the_frame(tmp_path):
    (tmp_path / "kern").mkdir()
    (tmp_path / "kern/a.cc").write_text("one\n\ttwo\t\t2;\n")
    (tmp_path / "outside").write_text("secret\n")
    frames = (Frame("f", "kern/a.cc", 2, inlined=True), Frame("g", "kern/a.cc", 99), Frame("h", "../outside", 1), Frame("i", "/etc/passwd", 1))
    shown = lines(profile({Key("x", frames): (1, 1)}), root=tmp_path / "kern/..")
    assert shown[5:9] == ["    f (inlined)  kern/a.cc:2", "        two 2;", "    g  kern/a.cc:99", "    h  ../outside:1"]
    assert "    i  /etc/passwd:1" in shown and "secret" not in str(shown) and "root:" not in str(lines(profile({Key("x", frames): (1, 1)}), root=tmp_path / "kern"))


def test_names_cannot_break_lines_or_colour_terminals():
    nasty = Key("ca\nche\x1b[31m", (Frame("f\r\n9 bytes", "a\nb", 3),), (), "pid 1 \x1b[2J")
    for by in text.BY:
        shown = lines(profile({nasty: (1, 8)}, "ti\ntle", incomplete=["lo\nst"]), by=by)
        assert not any(re.search(r"[\x00-\x1f]", line) for line in shown)


@pytest.mark.parametrize("by, wanted", (
    ("cache", ["384          2  leaky", "136          1  chan"]),
    ("process", ["384          2  pid 3 leakdemo", "136          1  not known"]),
    ("function", ["384          2          384          2  leaky_open", "136          1          136          1  Chan::create",
                  "0          0          520          3  main", "0          0          520          3  sys_open"])))
def test_tables(by, wanted):
    """A function that is in a stack several times counts once."""
    shown = lines(profile({key(callers=("sys_open", "sys_open")): (2, 384), key("chan", "Chan::create", process=""): (1, 136)}), by=by)
    assert [line.strip() for line in shown[5:]] == wanted


def test_tables_of_a_difference():
    shown = lines(profile({key(): (-2, -384), key("chan", "Chan::create"): (1, 136)}), by="cache", base="before")
    assert [line.split() for line in shown[5:]] == [["-384", "-2", "leaky"], ["+136", "+1", "chan"]]
    with pytest.raises(SystemExit):
        command.main(["--base", "a", "--by", "process", "b"])


def test_what_has_no_size_is_counted():
    shown = lines(profile({key("ref.chan"): (3, 0)}, sources={"ref.chan": Source("ref.chan", "references")}))
    assert "3 references of ref.chan from stack" in shown and shown[1].startswith("3 references from ")


def test_folded_stacks_begin_with_the_program_and_end_with_the_cache():
    written, left_out = folded.lines_of(profile({key(mark=1): (1, 192), key(mark=2): (2, 384), key("a;b", "f;\ng", user=()): (1, 8)}))
    assert (written, left_out) == (["main;sys_open;leaky_open;[leaky] 576", "sys_open;f:?g;[a:b] 8"], 0)
    assert folded.lines_of(profile({key(): (3, 0)}))[0] == ["main;sys_open;leaky_open;[leaky] 3"]
    assert folded.lines_of(profile({key(): (3, 7)}), "objects")[0] == ["main;sys_open;leaky_open;[leaky] 3"]


def test_folded_stacks_have_no_negative_numbers():
    written, left_out = folded.lines_of(profile({key(): (-1, -192), key("chan", "Chan::create"): (1, 136)}))
    assert (written, left_out) == (["main;sys_open;Chan::create;[chan] 136"], 192)


def test_folded_stacks_can_be_read_again():
    before = profile({key(): (2, 384), key("chan", "operator new", user=("a b",)): (1, 136)})
    after = folded.read("file", "".join(line + "\n" for line in folded.lines_of(before)[0]))
    assert after.total().bytes == 520 and {each.source for each in after.amounts} == {"leaky", "chan"}
    assert folded.lines_of(after) == folded.lines_of(before)


def test_a_difference_is_what_came():
    """For a difference, two stacks are the same if they differ only in addresses, ages, marks or
    processes."""
    base = profile({key(address=1): (3, 576), key("chan", "Chan::create"): (1, 136)})
    later = profile({key(address=1, age="1 to 10 s"): (3, 576), key(process="pid 9 leakdemo", mark=3, address=2): (10, 1920), key("chan", "Chan::create"): (1, 136)},
                    holders={key(process="pid 9 leakdemo", mark=3, address=2): ["a reference"]})
    result = difference(later, base)
    assert list(result.amounts.values()) == [Amount(10, 1920)] and result.incomplete == []
    shown = lines(result, base="before")
    assert shown[:2] == ["a dump, what has changed since before", "+1920 bytes in +10 objects from 1 stacks of 1 sources"]
    assert "+1920 bytes in +10 objects of leaky from stack" in shown and "    held by a reference" in shown
    assert list(difference(base, later).amounts.values()) == [Amount(-10, -1920)]


def test_the_same_from_other_callers_is_told_only():
    base = profile({key(user=("evaltree", "main")): (3, 576), key("", "", user=("a",)): (1, 1)}, incomplete=["something"])
    later = profile({key(user=("evaltree", "evaltree", "main")): (3, 576), key("", "", user=("a",)): (1, 1)}, build_id="01")
    base.build_id = "02"
    result = difference(later, base)
    assert not result.amounts
    assert [line.partition(":")[0].partition(",")[0] for line in result.incomplete] == [
        "of the base", "1 stacks of the kernel have as many bytes as in the base", "the base is of another kernel"]


def test_programs_alone_are_compared_as_they_are():
    base, later = (profile({Key("malloc", (), (Frame(name, module="/bin/x"),)): (1, 8)}) for name in ("f", "g"))
    assert sorted(amount.bytes for amount in difference(later, base).amounts.values()) == [-8, 8]


def dump_of(groups):
    return SimpleNamespace(build_id="01", time=10**9, stacks_unnamed=0, contexts_unnamed=0, contexts={}, context_name=lambda number: "pid 12 sh",
                           age=lambda record: 5, stacks={group.stack: SimpleNamespace(kind="kernel", frames=(group.stack,)) for group in groups},
                           sources=[leak_fakes.source(name=group.name, live=len(group.records), options={}) for group in groups])


class Lookup:
    def kernel(self, _):
        return None

    def kernel_frames(self, _, stacks):
        return {stack: (Frame(f"f{stack[0]}"),) for stack in stacks}

    def program_frames(self, stacks):
        return {}


def test_a_leak_test_leaves_what_it_accuses(tmp_path):
    """The profile and the files of a leak test have the stack that leaked in all three runs, but
    not the stack that leaked in one run. The verdict's doubts become the profile's `incomplete`."""
    leak, once = leak_fakes.group([0, 1, 2], offset=1), leak_fakes.group([1], name="page", function="g", offset=2, size=4096)
    dump = dump_of([leak, once])
    for source, group in zip(dump.sources, (leak, once)):
        source.records = group.records
    verdict = judge([leak, once], 3, ["a doubt"])
    made = leak_files.profile_of("leakdemo leak 1", verdict, dump, Lookup(), {})
    assert made.total() == Amount(3, 192) and set(made.sources) == {"debug_64"}
    assert (made.title, made.incomplete) == ("make leaktest CMD='leakdemo leak 1'", ["a doubt"])
    report = tmp_path / "report.txt"
    for old in ("report.html", "report.tracedump"):
        (tmp_path / old).write_text("of an earlier run")
    told = leak_files.write(report, [SimpleNamespace(profile=made, dump=b"the dump")])
    assert (tmp_path / "report.folded").read_text() == "f1;[debug_64] 192\n"
    assert (tmp_path / "report.tracedump").read_bytes() == b"the dump"
    assert told[0] == str(tmp_path / "report.folded") and told[-1] == str(tmp_path / "report.tracedump")
    # Each file exists, or a line gives the reason why not.
    for suffix in (".folded", ".pb.gz", ".html"):
        path = report.with_suffix(suffix)
        [line] = [line for line in told if line.startswith(str(path))]
        assert path.exists() == (line == str(path)) and (path.exists() or ": cannot be made: " in line)
    leak_files.write(report, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == []


def test_of_several_commands_all_are_together():
    results = [SimpleNamespace(profile=profile({key(): (n, 192 * n)}, f"test {n}", incomplete=["a doubt"])) for n in (1, 2)] + [SimpleNamespace(profile=None)]
    whole = leak_files.together(results)
    assert whole.total() == Amount(3, 576) and whole.incomplete == ["test 1: a doubt", "test 2: a doubt"]


def test_words_that_are_commands_of_their_own(monkeypatch):
    module = SimpleNamespace(main=lambda words: 7 if words == ["a", "-o", "b"] else 0)
    monkeypatch.setattr(command.importlib, "import_module", lambda name: module if name == "stele.report.merge" else None)
    assert command.main(["merge", "a", "-o", "b"]) == 7


def test_a_kind_of_report_that_cannot_be_made_is_one_line(monkeypatch, capsys, tmp_path):
    def broken(name):
        raise ImportError("no module")
    monkeypatch.setattr(command.importlib, "import_module", broken)
    assert command.main(["history"]) == 2
    assert capsys.readouterr().err == "report: history: cannot be made here: no module\n"


def test_of_all_forms_those_are_written_that_can_be(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("STELE_BUILD", str(tmp_path))
    dump = tmp_path / "dump"
    dump.write_bytes(fakes.dump(fakes.source("pipe", fakes.records(2))))
    for suffix in command.FORMATS.values():
        if suffix != ".txt":
            (tmp_path / f"out{suffix}").mkdir()
    assert command.main(["--format", "all", "-o", str(tmp_path / "out"), str(dump)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("report: ") and error.count("\n") == 1 and "out.folded: Is a directory; " in error
    assert "128 bytes in 2 objects" in (tmp_path / "out.txt").read_text()


def test_output_that_cannot_be_written_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("STELE_BUILD", str(tmp_path))
    dump = tmp_path / "dump"
    dump.write_bytes(fakes.dump(fakes.source("pipe", fakes.records(2))))
    for output in (tmp_path / "none/x", tmp_path):
        assert command.main(["-o", str(output), str(dump)]) == 2
        assert re.fullmatch(r"report: .*: (No such file or directory|Is a directory)\n", capsys.readouterr().err)
    assert command.main(["--format", "folded", "-o", str(tmp_path / "out"), str(dump)]) == 0
    assert (tmp_path / "out").read_text() == "0x401000;0xffffffff80005678;0xffffffff80001234;[pipe] 128\n"
