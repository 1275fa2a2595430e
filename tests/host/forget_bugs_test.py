"""Runs the death tests of forget_test.cc, which take long. Each death test plants a bug in the sweep
of stacks and contexts. forget_test must detect this bug."""
import os
import subprocess

import pytest

from guest import BUILD


@pytest.mark.long
def test_a_sweep_with_a_bug_is_found():
    run = subprocess.run([BUILD / "host/address-trace", "--gtest_filter=*ForgetDeathTest*"], env=os.environ | {"FORGET_BUGS": "1"},
                         stdout=subprocess.PIPE, text=True)
    assert run.returncode == 0 and "[  PASSED  ] 2 tests." in run.stdout, run.stdout
