"""`man` in the guest: plain text for programs, a pager for people."""
import re
import unittest

from console import Console
from guest import ROOT, guest

PAGES = sorted(page.stem for page in (ROOT / "docs/man").glob("*.1"))


class Man(unittest.TestCase):
    def test_every_page_is_there_and_plain(self):
        result = guest("".join(f"man {page} || exit; echo ===;" for page in PAGES))
        self.assertEqual((result.status, result.stderr), (0, ""))
        for page, text in zip(PAGES, result.stdout.split("===\n")):
            self.assertTrue(text.startswith(f"{page.upper()}(1) "), text)
            self.assertRegex(text, r"(?m)^SYNOPSIS$")
            self.assertEqual(re.findall(r"[^\n -~]", text), [])
            self.assertLessEqual(max(map(len, re.split(r"EXAMPLES", text)[0].splitlines())), 78)

    def test_no_page(self):
        result = guest("man nosuch")
        self.assertEqual((result.status, result.stdout, result.stderr), (1, "", "man: no manual entry for 'nosuch'\n"))

    def test_in_a_pager(self):
        """A screen at a time, to the end by G, and the prompt again after q."""
        with Console() as console:
            console.read_until(Console.PROMPT)
            console.type("man memleak\n")
            first = console.read_until("DESCRIPTION")
            self.assertIn("MEMLEAK(1)", first)
            self.assertNotIn("SEE ALSO", first)
            console.type("G")
            self.assertIn("SEE ALSO", console.read_until("SEE ALSO"))
            console.type("q")
            console.type("echo end$((6 * 7))\n")
            self.assertIn("end42", console.read_until("end42"))


if __name__ == "__main__":
    unittest.main()
