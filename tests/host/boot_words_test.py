"""The words of the kernel command line."""
import re

from guest import ROOT

OTHERS = {"objects", "contexts"}  # kern/bench calls boot_option() with a variable
NOT_THERE = {"ktes", "no-such-option"}  # kern/tests/arch_test.cc looks for them in vain


def test_the_kernel_knows_each_word_that_it_reads():
    """A word that is missing in the list of boot_words.cc gives a line on the console although it has an effect; a word too many gives none
    although it has no effect."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "kern").rglob("*.cc")]
    read = {name for text in sources for name in re.findall(r'\b(?:boot_|ktest_)?option\("([\w-]+)"', text)} - NOT_THERE | OTHERS
    listed = re.search(r"kNames\[\] = \{(.*?)\};", (ROOT / "kern/core/boot_words.cc").read_text(encoding="utf-8"), re.DOTALL).group(1)
    assert set(re.findall(r'"([\w-]+)"', listed)) == read
