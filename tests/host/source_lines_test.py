"""Translation of addresses to functions, files and lines (tools/stele/source_lines.py, dwarf.py,
ksyms.py)."""
import re
import subprocess

import pytest

from guest import BUILD, ROOT
from stele import dwarf, ksyms
from stele.leaks import UserStack
from stele.source_lines import ProgramLines, SourceLines, build_id

SOURCE = """
extern "C" int leaf(int);
struct Maker { template <typename T> __attribute__((always_inline)) static T make(T a) { return leaf(a) + 1; } };
namespace { __attribute__((always_inline)) inline int middle(int a) {
  return Maker::make(a) + 2; } }
extern "C" int outer(int a) {
  return middle(a) + 3; }
int (*pointer())(int) { return [](int a) { return middle(a) + 4; }; }
"""


def calls_in(folder, source):
    """Compiles `source` to the ELF file `a`. Returns the addresses of its calls."""
    (folder / "a.cc").write_text(source)
    subprocess.run(["g++", "-O2", "-g", "-c", "-o", str(folder / "a.o"), "-ffreestanding", "a.cc"], cwd=folder, check=True)
    subprocess.run(["ld", "-o", str(folder / "a"), "--defsym=leaf=0x400000", "-e", "outer", "-Ttext=0x401000", str(folder / "a.o")], check=True)
    listing = subprocess.run(["objdump", "-d", str(folder / "a")], capture_output=True, text=True, check=True).stdout
    return [int(address, 16) for address in re.findall(r"^ +([0-9a-f]+):.*\tcall ", listing, re.M)]


def test_inlined_functions_have_their_own_names(tmp_path):
    calls = calls_in(tmp_path, SOURCE)
    found = dwarf.places(str(tmp_path / "a"), [*calls, 0x10])
    assert sorted(found) == sorted(calls)
    stacks = [[(ksyms.plain_name(name).rpartition("::")[2], line) for name, file, line in place] for place in found.values()]
    assert all(file == str(tmp_path / "a.cc") for place in found.values() for _, file, _ in place)
    assert [("make", 3), ("middle", 5), ("outer", 7)] in stacks
    assert any(stack[:2] == [("make", 3), ("middle", 5)] and stack[2:] and all(line == 8 for _, line in stack[2:]) and stack[2][0] != "outer" for stack in stacks)


QUALIFIED = """
extern "C" int leaf(int);
namespace outside { namespace {
template <typename T> struct Name {
  __attribute__((always_inline)) static T copy(T a);
  struct Inner { __attribute__((always_inline)) T move(T a) { return leaf(a) + 1; } };
};
template <typename T> T Name<T>::copy(T a) { return Inner().move(a) + 2; }
} }
extern "C" int outer(int a) {
  struct Local { __attribute__((always_inline)) static int inside(int a) { return outside::Name<int>::copy(a) + 3; } };
  return [](int a) __attribute__((always_inline)) { return Local::inside(a) + 4; }(a) + 5; }
"""


def test_inlined_members_are_named_with_their_classes(tmp_path):
    """Members of a class without linkage have no mangled names."""
    [call] = calls_in(tmp_path, QUALIFIED)
    [place] = dwarf.places(str(tmp_path / "a"), [call]).values()
    assert [ksyms.plain_name(name) for name, _, _ in place] == ["outside::Name::Inner::move", "outside::Name::copy", "Local::inside", "operator()", "outer"]


def test_a_program_s_function_has_file_and_line():
    folder = BUILD / "user/bin"
    if not (folder / "leakdemo").exists():
        pytest.skip("no program was built")
    address = next(int(line.split()[0], 16) for line in ksyms.nm(folder / "leakdemo") if line.endswith(" T main"))
    identity = build_id(folder / "leakdemo")
    places = ProgramLines([folder], ROOT).look_up([UserStack([], identity, "/bin/leakdemo", (address + 1, 0x10)), UserStack([], "0a1b", "/a", (address + 1,))])
    assert list(places) == [(identity, address + 1)]
    [(function, place)] = places[identity, address + 1]
    assert function == "main"
    assert re.search(r"^user/bin/leakdemo/leakdemo\.c:\d+$", place)


@pytest.fixture(scope="module")
def kernel_lines():
    """Returns the SourceLines of the kernel in the build folder."""
    elf = BUILD / "stele.elf"
    if not elf.exists():
        pytest.skip("no kernel was built")
    return SourceLines(elf, ROOT)


def test_a_kernel_function_has_file_and_line(kernel_lines):
    address = next(address for address, name in kernel_lines.symbols.functions if name == "sys_write")
    [(function, place)] = kernel_lines.look_up([address + 1])[address + 1]
    assert function == "sys_write+0x1"
    file, _, line = place.rpartition(":")
    assert "sys_write" in "".join((ROOT / file).read_text().splitlines()[int(line) - 1 : int(line) + 1])


def test_inlined_functions_do_not_have_their_caller_s_name(kernel_lines):
    """For some functions that are inlined in arena_alloc, GNU addr2line prints the name
    arena_alloc."""
    functions = kernel_lines.symbols.functions
    index = next(index for index, (_, name) in enumerate(functions) if name == "arena_alloc")
    found = dwarf.places(kernel_lines.elf, range(functions[index][0], functions[index + 1][0]))
    inlined = {name for place in found.values() for name, _, _ in place[:-1]}
    assert {place[-1][0] for place in found.values()} == {"arena_alloc"}
    assert "take" in inlined
    assert "arena_alloc" not in inlined


def test_what_is_unknown_has_no_line(kernel_lines):
    assert kernel_lines.look_up([0x10]) == {0x10: [("0x10", "")]}
