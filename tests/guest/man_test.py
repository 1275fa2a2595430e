"""`man` in the guest: plain text for programs, a pager for people."""
import re

import pytest

from console import Console
from guest import ROOT, checked, guest

pytestmark = pytest.mark.cpus(1)

PAGES = sorted(page.stem for page in (ROOT / "docs/man").glob("*.1"))


def test_every_page_is_there_and_plain():
    output = checked("".join(f"man {page} || exit; echo ===;" for page in PAGES))
    for page, text in zip(PAGES, output.split("===\n")):
        assert text.startswith(f"{page.upper()}(1) "), text
        assert re.search(r"(?m)^SYNOPSIS$", text)
        assert re.findall(r"[^\n -~]", text) == []
        assert max(map(len, re.split(r"EXAMPLES", text)[0].splitlines())) <= 78


def test_no_page():
    result = guest("man nosuch")
    assert (result.status, result.stdout, result.stderr) == (1, "", "man: no manual entry for 'nosuch'\n")


def test_in_a_pager():
    """The pager shows one screen at a time. The key G shows the end, and q returns to the shell."""
    with Console() as console:
        console.read_until(Console.PROMPT)
        console.type("man memleak\n")
        first = console.read_until("DESCRIPTION")
        assert "MEMLEAK(1)" in first
        assert "SEE ALSO" not in first
        console.type("G")
        assert "SEE ALSO" in console.read_until("SEE ALSO")
        console.type("q")
        console.type("echo end$((6 * 7))\n")
        assert "end42" in console.read_until("end42")
