"""The C library's names. user/libc/posix.list has all names that programs may ask the C library for, present or absent. docs/posix.md lists
the absent names with reasons.

A program finds out in two ways whether a function exists, and both must give the same answer: its configure script links a function that
the script declares itself, and its source includes the header. So the tests look up each name in its header and in the libraries, compile
each header alone, and check that each function declared in a header exists. The cross compiler does all this on the host; no guest runs.
"""
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import subprocess

import pytest

from guest import BUILD, ROOT, TOOLCHAIN

SYSROOT = BUILD / "sysroot"
INCLUDES = [SYSROOT / "include", SYSROOT / "newlib/include"]
OURS, NEWLIB = [SYSROOT / "lib/libstele.a"], [SYSROOT / "newlib/lib/libc.a", SYSROOT / "newlib/lib/libm.a"]
# Headers that programs do not include themselves: only other headers include them, or they belong to
# other libraries.
NOT_ALONE = re.compile(r"(machine|ssp|abi|bits)/|(sys/)?_")
C = ["-std=gnu17", "-D_GNU_SOURCE", "-w"]
# Functions that have another name at link time than in the header: libgen.h declares __xpg_basename,
# and the linker knows this function as basename.
RENAMED = {"__xpg_basename", "__xpg_strerror_r"}


def compiler(language, *arguments, **options):
    """Runs the cross compiler; `language` is "gcc" or "g++". Messages are in plain ASCII."""
    command = [TOOLCHAIN / f"bin/x86_64-stele-elf-{language}", f"--sysroot={SYSROOT}", *arguments]
    return subprocess.run(command, text=True, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"}, **options)


def parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def listed():
    """Returns {header: [names]} of user/libc/posix.list. A name may have the prefix that posix.list explains."""
    headers = {}
    for line in (ROOT / "user/libc/posix.list").read_text().splitlines():
        if line.startswith("  "):
            headers[header] += line.split()
        elif line and not line.startswith("#"):
            header = line
            headers.setdefault(header, [])
    return headers


def documented():
    """Returns the absent headers, names, and patterns of names: the first column of the tables in docs/posix.md."""
    rows = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs/posix.md").read_text(), re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


def find(header):
    return next((folder / header for folder in [*INCLUDES, gcc_include()] if (folder / header).exists()), None)


def gcc_include():
    return pathlib.Path(compiler("gcc", "-print-file-name=include").stdout.strip())


def test_that_declares(kind_and_name):
    """Returns C lines that compile only if the name is declared."""
    if kind_and_name.startswith("="):
        name = kind_and_name[1:]
        return f"#ifndef {name}\n  (void)({name});\n#endif\n"
    return f"  use((const volatile void*)&({kind_and_name.lstrip('$')}));\n"


test_that_declares.__test__ = False


def undeclared(folder, header, names):
    """Returns those of `names` that the header does not declare."""
    if find(header) is None:
        return set(names)
    source = folder / (header.replace("/", "_") + ".names.c")
    source.write_text(f"#include <{header}>\nvoid use(const volatile void*);\nvoid test(void) {{\n{''.join(map(test_that_declares, names))}}}\n")
    run = compiler("gcc", *C, "-fsyntax-only", source)
    errors = re.findall(r"error: (?:'(\w+)' undeclared|(.*))", run.stderr)
    others = [other for _, other in errors if other]
    assert not others, run.stderr
    missing = {name for name, _ in errors}
    return {name for name in names if name.lstrip("=$") in missing}


def undefined(folder, functions):
    """Returns those of `functions` that the libraries lack. One program links all functions, so this also finds duplicate definitions."""
    source = folder / "functions.c"
    source.write_text("".join(f"extern char {name}[];\n" for name in functions) + "const void* const table[] = {" + ", ".join(functions) +
                      "};\nint main(void) { return 0; }\n")
    run = compiler("gcc", *C, "-fno-builtin", "-o", folder / "functions", source)
    assert "multiple definition" not in run.stderr, run.stderr
    missing = set(re.findall(r"undefined reference to `(\w+)'", run.stderr))
    assert run.returncode == 0 or missing, run.stderr
    return missing


def test_each_name_works_or_is_documented_as_absent(tmp_path):
    headers = listed()
    found = parallel(lambda item: undeclared(tmp_path, *item), headers.items())
    missing_from = dict(zip(headers, found))
    missing = {name.lstrip("=$") for names in found for name in names}
    functions = sorted({name for names in headers.values() for name in names if name[0] not in "=$"})
    not_linked = undefined(tmp_path, functions)
    absent = documented()

    def is_documented(header, name):
        return any(entry == header or fnmatch.fnmatchcase(name, entry) for entry in absent)

    silent = [f"{header}: {name}" for header, names in headers.items() for name in names
              if (name in missing_from[header] or name in not_linked) and not is_documented(header, name.lstrip("=$"))]
    assert not silent, f"absent, and docs/posix.md does not say so:\n{chr(10).join(silent)}"
    there = [entry for entry in absent if (find(entry) if entry.endswith(".h") else [
        name for names in headers.values() for name in names
        if fnmatch.fnmatchcase(name.lstrip("=$"), entry) and name.lstrip("=$") not in missing and name not in not_linked])]
    assert not there, f"there, and docs/posix.md says that it is absent: {there}"
    unlisted = [entry for entry in absent if entry not in headers and not fnmatch.filter(missing | not_linked, entry)]
    assert not unlisted, f"docs/posix.md names what user/libc/posix.list does not: {unlisted}"


def all_headers():
    found = {str(path.relative_to(folder)) for folder in INCLUDES for path in folder.rglob("*.h")}
    return sorted(header for header in found if not NOT_ALONE.match(header))


def symbols(libraries):
    """Returns the global names that these libraries define."""
    listing = subprocess.run(["nm", "-g", "--defined-only", *libraries], text=True, capture_output=True, check=True).stdout
    return set(re.findall(r"^[0-9a-f]+ \w (\S+)$", listing, re.MULTILINE))


def test_nothing_is_there_twice():
    """No name is defined in both libstele.a and newlib. If both defined a function, the rest of the program would decide which definition
    is linked. user/libc/newlib/build removes newlib's functions that libstele.a has."""
    assert symbols(OURS) & symbols(NEWLIB) == set()


@pytest.fixture(name="declared", scope="module")
def _declared(tmp_path_factory):
    """Returns (folder, {header: {(function, file)}}). For each header, the folder has a source that includes only this header. The set of a header
    contains every function that is declared in this source, and the file that declares the function."""
    folder = tmp_path_factory.mktemp("headers")

    def declarations(header):
        source = folder / (header.replace("/", "_") + ".c")
        source.write_text(f"#include <{header}>\n")
        run = compiler("gcc", *C, "-fsyntax-only", "-aux-info", source.with_suffix(".X"), source)
        assert run.returncode == 0, f"#include <{header}>, alone:\n{run.stderr}"
        prototypes = re.findall(r"^/\* (\S+?):\d+:\S+ \*/ extern .*?(\w+) \((?!\*)", source.with_suffix(".X").read_text(), re.MULTILINE)
        return {(function, file) for file, function in prototypes}

    headers = all_headers()
    return folder, dict(zip(headers, parallel(declarations, headers)))


@pytest.mark.shares
def test_each_header_compiles_alone(declared):
    folder, headers = declared
    assert len(headers) > 100
    # Compiles each source as C++, and as C with only POSIX. A compiler call for many files takes less time than many calls.
    sources = [folder / (header.replace("/", "_") + ".c") for header in headers]
    half = len(sources) // 2
    runs = [("g++", "-x", "c++", "-std=c++17"), ("gcc", "-std=c11", "-D_POSIX_C_SOURCE=200809L")]
    jobs = [(*run, "-fsyntax-only", *part) for run in runs for part in (sources[:half], sources[half:])]
    for run in parallel(lambda job: compiler(*job), jobs):
        assert run.returncode == 0, run.stderr


@pytest.mark.shares
def test_no_header_declares_what_is_not_there(declared):
    there = symbols([*OURS, *NEWLIB, SYSROOT / "lib/crt0.o", SYSROOT / "newlib/lib/libgcc.a"]) | RENAMED
    absent = {f"{file}: {function}" for functions in declared[1].values() for function, file in functions
              if function not in there and not file.startswith(str(gcc_include()))}
    assert not absent, "\n".join(sorted(absent))


@pytest.mark.shares
def test_functions_have_c_linkage_in_cxx(declared):
    """Each header of user/libc that declares functions declares them with C linkage for C++."""
    files = {pathlib.Path(file) for functions in declared[1].values() for _, file in functions}
    ours = [file for file in files if file.is_relative_to(INCLUDES[0])]
    assert len(ours) > 20
    assert [file for file in ours if not re.search('__BEGIN_DECLS|_BEGIN_STD_C|extern "C"', file.read_text())] == []
