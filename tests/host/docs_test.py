"""README and the documents: their quotes have markers, their links lead somewhere, and their figures are those of the baseline."""
import json
import re
import shlex
import subprocess

import pytest

import bench
import counts
import loads
from guest import BUILD, ROOT
from stele import quote_runs
from stele.quotes import QuoteError, difference, looks_like_output, masked, quotes_of, renewed

DOCUMENTS = quote_runs.documents()
PAGE = """Text.

<!-- slow typed: --smp 2 -->

    # echo one
    one

    # echo \\
      two
    two
    …

Text.

    $ make
"""


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_blocks_and_their_markers():
    quote, other = quotes_of("page", PAGE)
    assert (quote.kind, quote.words, quote.slow, quote.start) == ("typed", "--smp 2", True, 5)
    assert quote.parts()[1:] == [("# echo one", ["one", ""]), ("# echo \\\n  two", ["two", "…"])]
    assert quotes_of("page", "    $ cat <<'END'\n    a\n    END\n    b\n")[0].parts()[1:] == [("$ cat <<'END'\na\nEND", ["b"])]
    assert other.kind == "" and not looks_like_output(other)
    with pytest.raises(QuoteError):
        quotes_of("page", "<!-- typed: -->\n\nText\n")


def test_a_marker_survives_what_shells_write():
    quote = quotes_of("page", "<!-- output: a 2>&1 | sed 's/x -> y/z/'\nb -->\n\n    c\n")[0]
    assert quote.words == "a 2>&1 | sed 's/x -> y/z/' b"


@pytest.mark.parametrize("one, other", (
    ("\t0xffff8000005a2000 size 192 age 12 mark 0 cpu 0 pid 3 leakdemo", "   0xffff8000006d1000 size 192 age 9 mark 0 cpu 1 pid 14 leakdemo"),
    ("[    3.201733] 2 CPUs", "[   13.001] 2 CPUs"),
    ("runs: 1 to warm up, 40 untraced in 5.8 s, 6 traced", "runs: 1 to warm up, 1236 untraced in 14 s, 6 traced"),
    ("leaky_open+0x22  kern/drivers/dev/debug.cc:66", "leaky_open+0x9  kern/drivers/dev/debug.cc:170"),
))
def test_lines_that_two_runs_print(one, other):
    assert difference([one], [other]) is None


@pytest.mark.parametrize("one, other", (
    ("chan S 232 8192", "chan S 248 8192"),
    ("\t0xffff8000005a2000 size 192 age 12", "\t0xffff8000005a2000 size 208 age 12"),
    ("576 bytes in 3 allocations from stack", "768 bytes in 4 allocations from stack"),
    ("leaky_open+0x22 [kernel]", "leaky_close+0x22 [kernel]"),
    ("at +0x10 of kmalloc_32", "at +0x18 of kmalloc_32"),
    ("1 to warm up, 6 traced", "1 to warm up, 7 traced"),
))
def test_lines_that_differ(one, other):
    assert difference([one], [other]) is not None


def test_only_a_rewrite_renews_lines_and_offsets():
    assert difference(["f+0x2 [kernel]"], ["f+0x3 [kernel]"], loosely=False) is not None
    assert difference(["a.cc:2"], ["a.cc:3"], loosely=False) is not None
    assert masked("a.cc:2 f+0x3 0xffff8000005a2000", False) == "a.cc:2 f+0x3 ADDRESS"


@pytest.mark.parametrize("quoted, same", (
    (["a", "b", "c"], True), (["a", "…"], True), (["…", "c"], True), (["a", "…", "c"], True), (["…", "b", "…"], True), (["a", "", "b", "c"], True),
    (["…", "…"], True), (["a …", "b", "c"], False), (["…", "a", "c"], False), (["a", "b"], False), (["b", "c"], False), (["c", "…", "a"], False),
    ([], False), (["a", "…", "c", "d"], False), (["…", "b"], False)))
def test_cuts(quoted, same):
    assert (difference(quoted, ["a", "b", "c"]) is None) == same


def test_another_compiler_has_other_frames_but_the_same_numbers():
    quoted = ["2 bytes from stack", "\tf+0x2 [kernel]", "\tg (inlined)  kern/a.cc:3", "\tage"]
    assert difference(quoted, ["2 bytes from stack", "\tfg+0x2 [kernel]", "\tage"], frames=False) is None
    assert difference(quoted, ["3 bytes from stack", "\tfg+0x2 [kernel]", "\tage"], frames=False) is not None


def test_a_quote_is_renewed_between_its_cuts():
    actual = ["head", "f+0x3 [kernel]", "g+0x4 [kernel]", "more", "3 bytes", ""]
    assert renewed(["…", "f+0x2 [kernel]", "…", "2 bytes"], actual) == ["…", "f+0x3 [kernel]", "…", "3 bytes"]
    assert renewed(["old"], actual) == actual[:-1]
    with pytest.raises(QuoteError):
        renewed(["…", "other"], actual)


def test_make_leaktest_is_run_without_a_build():
    command = "make leaktest QUICK=1 FREES=yes VARIANT=break \\\n    CMD='ls | cat'"
    assert quote_runs.without_build(command, "/x") == "scripts/leaktest --no-build --report /x/report.txt --quick --frees --variant break 'ls | cat'"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_quoted_output_says_how_it_is_made(path):
    bare = [quote.name for quote in quote_runs.quotes_in(path) if not quote.kind and looks_like_output(quote)]
    assert not bare, f"these blocks quote an output without a marker (tools/stele/quotes.py): {bare}"
    empty = [quote.name for quote in quote_runs.quotes_in(path) if quote.kind in ("by hand", "output") and not quote.words]
    assert not empty, f"these markers give no reason or command: {empty}"


def anchors_of(text):
    """Returns the anchors of a page: those written as <a id="…">, and those of headings, as the usual sites make them: small letters, no
    punctuation, hyphens for blanks."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_link_leads_somewhere(path):
    prose = re.sub(r"^(?: {4}|\t).*$", "", text_of(path), flags=re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        to = (ROOT / path).parent / file if file else ROOT / path
        assert to.exists(), f"{path}: no file {target}"
        assert not anchor or anchor in anchors_of(to.read_text(encoding="utf-8")), f"{path}: no heading {target}"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_page_is_reached_from_the_readme(path):
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)\s#]+)", text_of("README.md"))}
    assert path == "README.md" or (ROOT / path).resolve() in linked


def test_the_readme_is_short():
    assert len(text_of("README.md").splitlines()) <= 150


def figures():
    """Returns {row: figure} of the table in docs/speed.md."""
    found, texts = {}, iter(line.strip() for line in text_of("docs/speed.md").splitlines())
    lines = list(texts)
    position = 0
    for name, what, *_ in bench.ROWS:
        for number in range(position, len(lines)):
            match = re.match(re.escape(what) + r" +([\d,]+\.\d+)(?: |$)", lines[number])
            if match:
                found[name], position = float(match[1].replace(",", "")), number + 1
                break
    return found


def test_the_figures_of_the_speed_page_are_those_of_the_baseline():
    shown, baseline = figures(), counts.baseline("gcc-12")
    assert {row[0] for row in bench.ROWS} - shown.keys() <= {"inserts", "inserts_on", "inserts_sampled"}
    wrong = [f"{name}: {shown[name]:g} in docs/speed.md, {baseline[name]:g} in the baseline" for name in sorted(shown.keys() & baseline.keys())
             if abs(shown[name] - baseline[name]) > baseline[name] * counts.TOLERANCES.get(name, counts.TOLERANCE)]
    # The loads of the baseline are shorter, so their per cent differ a little.
    wrong += [f"{name}: +{shown[whole]:g} % in docs/speed.md, +{baseline[name]:g} % in the baseline" for name in loads.short_rows()
              for whole in [name.replace(loads.LOAD_ROWS, "load_")] if abs(shown[whole] - baseline[name]) > 3 * counts.LOAD_TOLERANCE]
    assert not wrong, "\n".join(["`make bench` prints the table anew:", *wrong])


def test_the_device_of_the_tutorial_compiles():
    """The tutorial has a device to type. It is compiled as another device is, without an object file."""
    block = next("\n".join(quote.bare()) for quote in quote_runs.quotes_in("docs/tutorial.md") if "device_register" in "\n".join(quote.lines))
    source = block.partition("<<'END'\n")[2].partition("\nEND")[0]
    assert "class NoteDevice" in source
    database = json.loads((BUILD / "compile_commands.json").read_text())
    entry = next(entry for entry in database if entry["file"].endswith("drivers/dev/null.cc"))
    words = [word for word in shlex.split(entry["command"])[:-1] if word != "-c"]
    run = subprocess.run([*words, "-x", "c++", "-fsyntax-only", "-include", "drivers/dev/devices.h", "-"], input="void note_device_init();\n" + source,
                         capture_output=True, text=True, cwd=entry["directory"], check=False)
    assert run.returncode == 0, run.stderr


def test_measured_figures_may_differ_by_a_tenth():
    assert difference(["a.cc 1,000 0.50"], ["a.cc 1,090 0.46"], near=True) is None
    assert difference(["a.cc 1,000 0.50"], ["a.cc 1,110 0.50"], near=True) is not None
    assert difference(["a.cc 1,000"], ["b.cc 1,000"], near=True) is not None
