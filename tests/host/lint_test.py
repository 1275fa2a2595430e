"""scripts/lint: it does not pass without a clang that is new enough."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("programs", ((), ("clang", "clang-tidy"), ("clang-14", "clang-tidy-14", "clang-18", "clang-tidy-18"), ("clang-19",),
                                      ("clang-tidy-19",), ("clang-19", "clang-tidy-20")))
def test_no_clang_that_is_new_enough(tmp_path, programs):
    for program in programs:
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    (tmp_path / "compile_commands.json").write_text("[]")
    run = subprocess.run([ROOT / "scripts/lint", tmp_path / "compile_commands.json"], env={"PATH": str(tmp_path)}, capture_output=True, text=True,
                         check=False)
    assert run.returncode == 2 and not run.stdout and run.stderr.count("\n") == 1, run
    assert run.stderr.startswith("lint: ") and "clang-19 and clang-tidy-19" in run.stderr, run
