"""How pytest's collectors (googletest.py, kernel_tests.py) handle test programs and kernels that
end early: each test gets an outcome, and a test that did not run does not pass."""
import json

import conftest
import googletest
import kernel_tests

GOOGLETEST = """Note: Google Test filter = A.a:A.b:A.c
[ RUN      ] A.a
[       OK ] A.a (12 ms)
[ RUN      ] A.b
a_test.cc:7: Failure
"""
TAP = """[    0.1] log\r
TAP version 13\r
ok 1 - first # 1500 ms\r
# kern/tests/a_test.cc:7: x == y\r
not ok 2 - second # 3 ms\r
"""


def results(outcomes):
    return {name: outcome.result for name, outcome in outcomes.items()}


def test_googletest_cases_have_their_own_output_and_time():
    outcomes = googletest.outcomes_in(GOOGLETEST + "[  FAILED  ] A.b, where GetParam() = 4 (3 ms)\n[ RUN      ] A.c\n[  SKIPPED ] A.c (0 ms)\n",
                                      ["A.a", "A.b", "A.c"], 1)
    assert results(outcomes) == {"A.a": "passed", "A.b": "failed", "A.c": "skipped"}
    assert outcomes["A.a"].seconds == 0.012
    assert outcomes["A.b"].output == "a_test.cc:7: Failure"


def test_googletest_program_that_dies():
    outcomes = googletest.outcomes_in(GOOGLETEST + "ERROR: AddressSanitizer\n", ["A.a", "A.b", "A.c"], -6)
    assert results(outcomes) == {"A.a": "passed", "A.b": "failed", "A.c": "failed"}
    assert "AddressSanitizer" in outcomes["A.b"].output
    assert outcomes["A.c"].output == "it did not run: the program ended with status -6 in A.b"


def test_googletest_program_that_dies_after_its_last_case():
    text = "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\nERROR: LeakSanitizer\n"
    outcomes = googletest.outcomes_in(text, ["A.a"], 1)
    assert results(outcomes) == {"A.a": "failed"}
    assert "LeakSanitizer" in outcomes["A.a"].output


def test_googletest_cases_belong_to_their_files(tmp_path):
    """A program has the cases of several files, and may have cases of one suite in two files."""
    listing = {"testsuites": [{"name": "A", "testsuite": [{"name": "a", "file": "tests/host/x_test.cc"}, {"name": "b/0", "file": "tests/host/y_test.cc"}]},
                              {"name": "B", "testsuite": [{"name": "c", "file": "tests/host/x_test.cc"}]}]}
    program = tmp_path / "address-world"
    program.write_text(f"#!/bin/sh\nfor last; do :; done\necho '{json.dumps(listing)}' > \"${{last#--gtest_output=json:}}\"\n")
    program.chmod(0o755)
    assert googletest.cases_of(program) == {"x_test.cc": ["A.a", "B.c"], "y_test.cc": ["A.b/0"]}


def test_kernel_tests():
    outcomes, missing = kernel_tests.outcomes_in(TAP, 1)
    assert results(outcomes) == {"first": "passed", "second": "failed"}
    assert outcomes["first"].seconds == 1.5
    assert "x == y" in outcomes["second"].output
    assert (missing.result, "status 1" in missing.output) == ("failed", True)


def test_kernel_that_panics():
    console = TAP + "kernel panic: at the disco\r\n"
    outcomes, missing = kernel_tests.outcomes_in(console, 134)
    assert results(outcomes) == {"first": "passed", "second": "failed"}
    assert "at the disco" in missing.output
    # A test may print "ok" and cause a panic after that. So the last test before a panic fails.
    outcomes, _ = kernel_tests.outcomes_in("ok 1 - first # 0 ms\r\nkernel panic\r\n", 134)
    assert results(outcomes) == {"first": "failed"}


def test_a_name_selects_its_test_only():
    class Item:
        def __init__(self, nodeid):
            self.nodeid = nodeid

    items = [Item("tests/a_test.py::test_x"), Item("tests/a_test.py::test_x_more"), Item("tests/b_test.py::test_y[two words]")]
    assert conftest.selected(items, "tests/a_test.py::test_x") == items[:1]
    assert conftest.selected(items, "test_x") == items[:2]
    assert conftest.selected(items, "more b_test") == items[1:]
    assert conftest.selected(items, "tests/b_test.py::test_y[two words]") == items[2:]
