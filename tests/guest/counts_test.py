"""The counts of bench/ do not become worse unseen."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import counts


class Counts(unittest.TestCase):
    def test_no_count_is_worse_than_the_baseline(self):
        worse = counts.worse(counts.measure(), counts.baseline())
        self.assertFalse(worse, "\n".join(["where that is meant, `make bench-baseline` says so:", *worse]))


if __name__ == "__main__":
    unittest.main()
