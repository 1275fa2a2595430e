"""compile_commands.json, for clangd."""
import json
import os
import pathlib
import shlex
import subprocess

import pytest

from guest import BUILD, ROOT, TOOLCHAIN

FILE = BUILD / "compile_commands.json"
FOLDERS = ("bench", "kern", "tests", "tools", "user")


def command_of(source):
    [entry] = [entry for entry in json.loads(FILE.read_text(encoding="utf-8")) if entry["file"] == source]
    return shlex.split(entry["command"]), entry["directory"]


def test_every_source_has_one_entry():
    """Sources of other configurations of the kernel have an entry as well."""
    listed = [entry["file"] for entry in json.loads(FILE.read_text(encoding="utf-8"))]
    there = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.c*") if path.suffix in (".c", ".cc")]
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("source", ("kern/src/slab.c", "kern/main.cc", "kern/tests/coverage_test.cc", "user/bin/init/init.c",
                                    "user/bin/kmemtop/arguments.cc", "user/libc/auxv.c", "user/ports/dash/signames.c", "tests/guest/threads.cc",
                                    "tests/host/slab_test.cc", "tests/host/slab_threads_test.cc", "bench/host/world.cc", "tools/reach/memory.cc"))
def test_an_entry_is_a_command_that_compiles(source):
    command, folder = command_of(source)
    subprocess.run([*command, "-fsyntax-only"], cwd=folder, check=True)


@pytest.mark.parametrize("source", ("user/bin/init/init.c", "user/lib/tool/files.cc"))
def test_an_entry_of_a_program_needs_no_script(source):
    """Clang cannot ask the toolchain's compiler, a script. An entry says all that the script adds: both have the same headers and macros."""
    command, folder = command_of(source)
    assert command[0] in ("gcc", "g++")
    script = TOOLCHAIN / f"bin/x86_64-stele-elf-{command[0]}"
    flags = [word for word in command[1:] if word.startswith(("-std=", "-D_GNU_SOURCE", "-Iuser", "-O"))]
    with_script = [script, f"--sysroot={BUILD.resolve() / 'sysroot'}", *flags, "-c", source]

    def preprocessed(words, *more):
        text = subprocess.run([*words, "-E", *more], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [line for line in text.splitlines() if not line.startswith("# ")]

    assert preprocessed(command) == preprocessed(with_script)
    assert preprocessed(command, "-dM") == preprocessed(with_script, "-dM")


def test_a_variant_leaves_the_file_as_it_is():
    """make would do nothing to the file in the build of a variant, and writes it anew where a flag has changed."""
    def written(*words):
        plan = subprocess.run(["make", "-n", "-W", "tools/compile_commands.py", "kernel", f"BASE={BUILD}", f"TOOLCHAIN={TOOLCHAIN}", *words], cwd=ROOT,
                              env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")}, capture_output=True, text=True,
                              check=True).stdout
        return [line.split()[-1] for line in plan.splitlines() if "tools/compile_commands.py" in line]

    assert [pathlib.Path(path).name for path in written()] == [FILE.name]
    assert written("VARIANT=debug") == []
