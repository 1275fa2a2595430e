"""compile_commands.json, for clangd."""
import json
import os
import pathlib
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STELE_BUILD", ROOT / "build"))
ENTRIES = "compile_commands.json"


def test_every_source_has_an_entry():
    """Sources of the kernel (those of other configurations too), of user programs and of host tests."""
    listed = {entry["file"] for entry in json.loads((BUILD / ENTRIES).read_text(encoding="utf-8"))}
    there = {str(path.relative_to(ROOT)) for folder in ("kern", "user/bin", "user/lib", "user/libc", "tests")
             for path in (ROOT / folder).rglob("*.c*") if path.suffix in (".c", ".cc")}
    assert listed == there


@pytest.mark.parametrize("source", ("kern/src/slab.c", "kern/src/main.cc", "user/bin/init/init.c", "user/bin/kmemtop/arguments.cc", "tests/host/slab_test.cc"))
def test_an_entry_is_a_command_that_compiles(source):
    [entry] = [entry for entry in json.loads((BUILD / ENTRIES).read_text(encoding="utf-8")) if entry["file"] == source]
    subprocess.run([*shlex.split(entry["command"]), "-fsyntax-only"], cwd=entry["directory"], check=True)
