"""scripts/check-words finds the words that comments and documents must not have."""
import subprocess
import textwrap

import pytest


def check(path, text):
    """Checks a file with this text. Returns the exit status, and the list of the lines found, each as "NUMBER:TEXT"."""
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    run = subprocess.run(["scripts/check-words", str(path)], capture_output=True, text=True, check=False)
    assert not run.stderr
    lines = [line.removeprefix(f"{path}:").split(":") for line in run.stdout.splitlines()]
    return run.returncode, [f"{number}:{words}" for number, *_, words in lines]


@pytest.mark.parametrize("text", (
    "// Who frees it decides.",
    "/* What was lost is counted. */",
    "/*\n * Whether it is free.\n */",
    "int a;  // Which of the two it is.",
    "// It is counted. What was lost is not.",
    "// First:\n// - Whatever comes\n",
    "// It is mostly free.",
    "// A mark, which stands\n// for a run.",
    "/* The zombie is mourned. */",
    "// Nothing is freed if not.",
    "// It passes them on to the source.",
    "// ---- Faults on purpose.",
    "/* Zeroes outside the section. */",
    "// The address of who called.",
    "// Each naming is kept.",
))
def test_forbidden(tmp_path, text):
    status, found = check(tmp_path / "a.cc", text)
    assert status == 1 and len(found) >= 1, found


@pytest.mark.parametrize("text", (
    "// A freeing CPU finds the record in its own shard. The flags say what was lost, and who lost it.",
    "// What if it is freed meanwhile? Nothing.",
    "// The ELF section .ksyms; a file's sections; in section 4.5 of the manual; each section of the file.",
    "// CPUs run in turn, and one task takes the turn of another. It turns interrupts off.",
    "// The test passes on 4 CPUs. A header naming a file. `mostly` is a function. Broken on purpose.",
    'const char* a = "// Who is there, mostly";\nint b = 1\'000;',
    "#define Whether 1",
    "// A dump keeps a record of who logged in. If not all fit, the rest is lost.",
))
def test_allowed(tmp_path, text):
    assert check(tmp_path / "a.cc", text) == (0, [])


def test_lines_and_kinds_of_files(tmp_path):
    assert check(tmp_path / "a.py", '''
        """Tools.

        It is mostly fast.
        """
        A = "mostly"  # Who calls

        def f():
            """Whether it is so."""
        ''') == (1, ["3: It is mostly fast.", "5: Who calls", "8: Whether it is so."])
    assert check(tmp_path / "a.sh", "x='# Who' # What it is\n# Which") == (1, ["1: What it is", "2: Which"])
    assert check(tmp_path / "script", "#!/bin/sh\n# Whoever") == (1, ["2: Whoever", "2: Whoever"])
    assert check(tmp_path / "a.md", '''
        # What makes it fast
        | What | Who |
        Who waits loses.
        ```
        Who waits
        ```
        - Fast. Which is best?
        - Whether it is
        ''') == (1, ["3: Who waits loses.", "8: Whether it is"])
    assert check(tmp_path / "a.1", ".SH DESCRIPTION\n\\fBWho\\fR reads\n.B mostly\n") == (1, ["2: Who reads mostly", "3: Who reads mostly"])
    assert check(tmp_path / "a.png", "# Who") == (0, [])


def test_folders(tmp_path):
    """In a folder, only the files that git knows are checked. All files together give one exit
    status."""
    good, bad = tmp_path / "good.h", tmp_path / "bad.h"
    good.write_text("// Good.\n")
    bad.write_text("// Who.\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    script = subprocess.run(["pwd"], capture_output=True, text=True, check=True).stdout.strip() + "/scripts/check-words"

    def status(*arguments):
        return subprocess.run([script, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, check=False).returncode

    subprocess.run(["git", "add", "good.h"], cwd=tmp_path, check=True)
    assert status(".") == 0
    subprocess.run(["git", "add", "bad.h"], cwd=tmp_path, check=True)
    assert status(".") == status("good.h", "bad.h") == status("bad.h", "good.h") == 1 and status("good.h") == 0
