"""The counts of bench/ do not become worse unseen."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import counts
from guest import guest


class Counts(unittest.TestCase):
    def test_no_count_is_worse_than_the_baseline(self):
        worse = counts.worse(counts.measure(), counts.baseline())
        self.assertFalse(worse, "\n".join(["where that is meant, `make bench-baseline` says so:", *worse]))

    def test_one_reader_at_a_time_has_the_benches_run(self):
        result = guest("cat '#bench/rows' > /tmp/a & cat '#bench/rows' > /tmp/b & wait; cat /tmp/a /tmp/b")
        self.assertEqual(result.stderr.count("somebody else reads #bench/rows"), 1, result)
        self.assertEqual(sum(line.startswith("traced ") for line in result.stdout.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
