"""Tools on the host: readers of dumps and symbols (tools/stele), and the handling of errors by
scripts/stress, scripts/leakfuzz and scripts/guest."""
import contextlib
import io
import os
import re
import subprocess
import sys

import pytest

from checkout import script
from stele import ksyms, returns
from stele.dump import DumpError, parse_ctl, parse_dumps, parse_ranges

HEADER = "kmemtrace {name} state stopped objsize 64 depth 32 mark 4\n"
COUNTERS = ("seen {seen} recorded {recorded} dropped {dropped} filtered 0 freed {freed} cleared 0 live {live} bytes {bytes} untracked 12 "
            "unmatched 3 stacks 7 stacks_lost {stacks_lost} contexts_lost {contexts_lost} truncated {truncated}\n")
GROUP = """
{bytes} bytes in {objects} allocations from stack
\tleak_at_depth+0x34 [kernel]
\tdebug_alloc_write+0x12 [kernel]
\tage ms min 12 avg 530 max 2800, marks {marks}, contexts pid 12 sh
\t0xffff800001234000 size 64 age 2800 mark 1 cpu 0 pid 12 sh
\t… {more} more
"""
USER_STACK = """\tuser stack of pid 12 sh and 1 more, 640 bytes in 10 allocations, build id 0a1b
\t\t0x401001 [/bin/sh]
\t\t0x402000 [/bin/sh]
"""


def test_what_the_end_of_a_stress_run_means():
    stress = script("stress")
    meanings = {0: stress.CLEAN, 1: stress.WRONG, 2: stress.UNKNOWN, 124: stress.WRONG, 125: stress.UNKNOWN, 134: stress.WRONG,
                137: stress.UNKNOWN, 139: stress.WRONG}
    assert {status: stress.verdict(status, b"")[0] for status in meanings} == meanings
    assert stress.verdict(2, b"slab check #1: ")[0] == stress.verdict(137, b"kernel panic: ")[0] == stress.WRONG


@pytest.mark.parametrize("name, arguments", (("stress", ["--once"]), ("leakfuzz", ["--minutes", "1", "--out", "/proc/none"])))
def test_a_failure_of_a_hunt_is_no_finding(name, arguments):
    """If the script itself fails, its status is 2, because status 1 means a finding. By default, Python
    ends with status 1 after an exception that nobody catches. So the script must catch all exceptions."""
    run = subprocess.run([sys.executable, f"scripts/{name}", *arguments], env={"PATH": "/usr/bin:/bin", "STELE_BUILD": "/proc/none"},
                         capture_output=True, text=True, check=False)
    assert run.returncode == 2 and re.fullmatch(rf"{name}: .*/proc/none.*\n", run.stderr), run


def test_the_accelerator_is_remembered_where_nobody_else_writes(tmp_path, monkeypatch):
    """Other users can write to the folder for temporary files. If another user guesses the name of the
    script's file, this user can make a link of that name to one of our files. So the script must not
    write to that folder."""
    module = script("guest")
    shared, build, ours = tmp_path / "shared", tmp_path / "build", tmp_path / "ours"
    shared.mkdir()
    build.mkdir()
    ours.write_text("precious")
    (shared / f"stele-accel-{os.getuid()}").symlink_to(ours)
    probes = []

    class Probe:
        def __init__(self, *arguments, **options):
            probes.append(arguments)

        returncode = module.QEMU_OFF

        def communicate(self, timeout):
            return b"[    0.006419] stele: booted by PVH", None

    monkeypatch.setattr(module.tempfile, "tempdir", str(shared))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("ACCEL", raising=False)
    monkeypatch.setattr(module.os, "access", lambda *_: True)
    monkeypatch.setattr(module.subprocess, "Popen", Probe)
    assert [module.accelerator(build / "stele.elf", False) for _ in range(2)] == ["kvm", "kvm"]
    assert len(probes) == 1 and ours.read_text() == "precious"
    assert [path.name for path in shared.iterdir()] == [f"stele-accel-{os.getuid()}"]


def test_a_qemu_that_fails_is_no_guest_that_boots(tmp_path, monkeypatch):
    """QEMU's status after an error is the status of a guest that powers off. Would find KVM chosen because the kernel, or KVM itself, is missing."""
    module = script("guest")
    monkeypatch.delenv("ACCEL", raising=False)
    monkeypatch.setattr(module.os, "access", lambda *_: True)
    assert module.accelerator(tmp_path / "no-kernel", False) == "tcg"


def dump(name="debug_64", groups=(), **changes):
    """Returns the text of a dump. `groups`: (number of objects, marks) of each group."""
    live = sum(objects for objects, _ in groups)
    counters = dict(seen=live + 50, recorded=live + 50, dropped=0, freed=50, live=live, bytes=64 * live, stacks_lost=0, contexts_lost=0,
                    truncated=0)
    counters.update(changes)
    return HEADER.format(name=name) + COUNTERS.format(**counters) + "".join(
        GROUP.format(bytes=64 * objects, objects=objects, marks=marks, more=objects - 1) for objects, marks in groups)


def test_whole():
    [parsed] = parse_dumps(dump(groups=[(100, "1-2,5")]))
    assert parsed.name == "debug_64"
    assert parsed.header["state"] == "stopped"
    assert parsed.counters["untracked"] == 12
    [group] = parsed.groups
    assert (group.bytes, group.objects, group.marks) == (6400, 100, {1, 2, 5})
    assert group.frames == ["leak_at_depth+0x34 [kernel]", "debug_alloc_write+0x12 [kernel]"]
    assert group.summary == "age ms min 12 avg 530 max 2800, marks 1-2,5, contexts pid 12 sh"


def test_several_and_what_is_off():
    text = dump("a", [(1, "0")]) + "kmemtrace b state off objsize 64\nto trace it: echo start > …\n" + dump("c")
    assert [parsed.name for parsed in parse_dumps(text)] == ["a", "c"]


def test_stack_that_was_not_recorded():
    text = dump(groups=[(1, "0")]).replace("\tleak_at_depth+0x34 [kernel]\n\tdebug_alloc_write+0x12 [kernel]\n",
                                           "\tthe stack was not recorded\n")
    assert parse_dumps(text)[0].groups[0].frames == ["the stack was not recorded"]


def test_new_keys_at_the_end():
    [parsed] = parse_dumps(dump().replace("truncated 0\n", "truncated 0 sampled 7\n"))
    assert parsed.counters["sampled"] == 7


def test_filters():
    [parsed] = parse_dumps(dump().replace(" mark 4\n", " mark 4 min 100 pid 12\n"))
    assert (parsed.header["mark"], parsed.header["min"], parsed.header["pid"]) == ("4", "100", "12")


def test_sampled():
    text = dump(groups=[(100, "0"), (1, "0")]).replace(" mark 4\n", " mark 4 sample 4096\n")
    text = text.replace("100 allocations from stack\n", "100 allocations from stack, estimated 409600 bytes in 6400 allocations\n")
    [parsed] = parse_dumps(text)
    assert parsed.header["sample"] == "4096"
    assert [group.estimated for group in parsed.groups] == [(409600, 6400), None]
    assert parsed.broken_identities() == []


def test_user_stacks():
    more = "\tuser stack of pid 13 cat, 1 bytes in 1 allocations\n\t\t0x401001 [/bin/cat]\n\t… 3 more user stacks\n"
    [parsed] = parse_dumps(dump(groups=[(100, "1-2")]).replace("pid 12 sh\n", "pid 12 sh\n" + USER_STACK + more, 1))
    [group] = parsed.groups
    assert len(group.frames) == 2
    assert [(stack.owner, stack.bytes, stack.objects, stack.build_id, stack.frames) for stack in group.user_stacks] == [("pid 12 sh and 1 more", 640, 10, "0a1b", ["0x401001 [/bin/sh]", "0x402000 [/bin/sh]"]),
                      ("pid 13 cat", 1, 1, "", ["0x401001 [/bin/cat]"])]


def test_ctl():
    line = dump().replace("\n", " ", 1)
    text = "limit 65536 used 4096\n" + line + line.replace("debug_64", "b").replace("truncated 0", "truncated 0 sampled 7 max 9")
    memory, (first, second) = parse_ctl(text)
    assert memory == {"limit": 65536, "used": 4096}
    assert (first.name, first.header, first.counters["truncated"]) == ("debug_64", {"state": "stopped", "objsize": "64", "depth": "32", "mark": "4"}, 0)
    assert (second.header["max"], second.counters["sampled"]) == ("9", 7)
    assert parse_ctl("limit 65536 used 0\n") == ({"limit": 65536, "used": 0}, [])
    assert parse_dumps("limit 65536 used 0\n" + dump())[0].name == "debug_64"
    with pytest.raises(DumpError):
        parse_ctl("")


def test_cut_off():
    with pytest.raises(DumpError):
        parse_dumps(HEADER.format(name="x"))


def test_nothing():
    assert parse_dumps("no dump\n") == []


def test_identities():
    for changes, broken in (({}, 0), ({"seen": 1}, 1), ({"freed": 1}, 1), ({"bytes": 1}, 1), ({"live": 99}, 2)):
        [parsed] = parse_dumps(dump(groups=[(100, "0")], **changes))
        assert len(parsed.broken_identities()) == broken, changes


def test_ranges():
    assert parse_ranges("0") == {0}
    assert parse_ranges("0-2,4,8-9") == {0, 1, 2, 4, 8, 9}


PLAIN_NAMES = {
    "kernel_main": "kernel_main",
    "arena_alloc(arena*, unsigned long, int)": "arena_alloc",
    "copy_file(Chan*) [clone .part.0]": "copy_file",
    "walk.isra.0": "walk",
    "(anonymous namespace)::DebugDevice::write(Chan&, char const*, unsigned long)": "DebugDevice::write",
    "StackTable::view(unsigned int) const": "StackTable::view",
    "Result<int> parse<int>(char const*)": "parse",
    "run()::{lambda(int)#1}::operator()(int) const": None,
    "operator delete(void*, unsigned long)": "operator delete",
    "tmp::Name::operator=(tmp::Name&&)": "tmp::Name::operator=",
    "bool operator==<int>(Pair<int> const&, Pair<int> const&)": "bool operator==",
    "operator<(Key const&, Key const&)": "operator<",
    "Table::operator[](unsigned long)": "Table::operator[]",
    "Guard::operator bool() const": "Guard::operator bool",
    "Device::walk(Chan&)::{lambda()#2}::_FUN()": None,
}


@pytest.mark.parametrize("symbol, expected", PLAIN_NAMES.items(), ids=range(len(PLAIN_NAMES)))
def test_plain_names(symbol, expected):
    name = ksyms.plain_name(symbol)
    assert expected in (None, name)
    assert name
    assert "(" not in name.replace("operator()", "")


def test_equal_names_are_told_apart_by_address():
    lines = ["ffffffff80100020 t init(int)", "ffffffff80100000 t init()", "ffffffff80100040 T main", "ffffffff80200000 d data",
             "0000000000000000 t absolute", "                 U undefined"]
    assert ksyms.functions(lines) == [(0xFFFFFFFF80100000, "init"), (0xFFFFFFFF80100020, "init.2"), (0xFFFFFFFF80100040, "main")]


def test_variables_are_those_that_can_be_written():
    """Each variable has its offset from the beginning of the data. Labels, which are symbols without
    a size, are left out."""
    lines = ["ffffffff80200000 D data_start", "ffffffff80200000 0000000000000008 d (anonymous namespace)::first", "ffffffff80200100 D label",
             "ffffffff80200040 0000000000000010 B Class::second", "ffffffff80200060 0000000000000100 b third", "ffffffff80180000 0000000000000010 V vtable for Class",
             "ffffffff80100000 0000000000000010 T function", "0000000000000000 a absolute"]
    assert ksyms.variables(lines) == [(0, "first"), (0x40, "Class::second"), (0x60, "third"), (0x160, "")]
    assert ksyms.variables([*lines, "ffffffff802001a0 0000000000000004 b far"])[3:] == [(0x160, ""), (0x1a0, "far"), (0x1a4, "")]


# The disassembly of a program. The tests find the addresses of the return instructions in it. A
# program's section .stele.returns lists these addresses.
DISASSEMBLY = ("prog:     file format elf64-x86-64\n\n0000000000401000 <f>:\n"
               "  401000:\t0f 1f 44 00 00       \tnopl   0x0(%rax,%rax,1)\n"
               "  401005:\te8 00 00 00 00       \tcall   401100 <ret>\n"
               "  40100a:\tc3                   \tret\n"
               "  40100b:\tb8 c3 00 00 00       \tmov    $0xc3,%eax\n"
               "  401010:\t{returned}\n")


def test_instructions_are_found_not_bytes():
    found = returns.returns_in(DISASSEMBLY.format(returned="c3                   \tret"))
    assert found == [0x40100A, 0x401010]
    assert returns.decode(returns.encode(found)) == found


def test_other_returns_fail():
    for other in ("c2 08 00             \tret    $0x8", "f3 c3                \trepz ret", "cb                   \tlret"):
        with pytest.raises(returns.Unprobed):
            returns.returns_in(DISASSEMBLY.format(returned=other))


def test_broken_sections_are_refused():
    good = returns.encode([1, 2])
    for bad in (b"", good[:-1], good + b"\0", b"X" + good[1:], good[:4] + b"\2" + good[5:]):
        with pytest.raises(ValueError):
            returns.decode(bad)


# The source of a small fake kernel. The tests compile it. In the ELF file, they find the places
# where probes are possible.
SOURCE = """
        extern int other(int), failed(int);
        __attribute__((cold, noinline)) int failed(int a) { asm volatile(""); return a + 3; }
        __attribute__((noinline)) int other(int a) { asm volatile(""); return a + 1; }
        __attribute__((no_instrument_function, noinline)) int hidden(int a) { asm volatile(""); return a + 2; }
        int several(int a) {
            if (a == 1) { asm volatile("ret"); }
            if (__builtin_expect(a == 2, 0)) { failed(a); failed(a + 1); return failed(7); }
            return other(a) + hidden(a);
        }
        int leaves(int a) { %s return other(a); }
    """


FLAGS = ["-O2", "-ffreestanding", "-fno-pic", "-no-pie", "-mcmodel=kernel", "-fno-asynchronous-unwind-tables", "-fcf-protection=none",
         "-pg", "-mfentry", "-mnop-mcount", "-nostdlib", "-static", "-Wl,-Ttext=0xffffffff80100000,-e,several,--build-id=none"]


def link(folder, *flags, leaves=""):
    elf = str(folder / "kernel")
    subprocess.run(["gcc", "-x", "c", "-", "-o", elf, *FLAGS, *flags], input=SOURCE % leaves, check=True, text=True)
    return elf


def test_functions_and_their_returns(tmp_path):
    path = link(tmp_path, "-fno-optimize-sibling-calls")
    elf = ksyms.Elf(path)
    places, returns = ksyms.probes_of(ksyms.disassemble(path), elf)
    address = {name: address for address, _, name, _ in elf.functions}
    assert places == sorted(address[name] for name in ("failed", "other", "several", "leaves"))
    assert all(elf.text[address - elf.start] == 0xC3 for address, _ in returns)
    assert [address for address, _ in returns] == sorted(address for address, _ in returns)
    count = [sum(place == places.index(address[name]) for _, place in returns) for name in ("failed", "other", "leaves")]
    assert count == [1, 1, 1]
    assert sum(place == places.index(address["several"]) for _, place in returns) >= 2
    # Code that the compiler moved away as cold still belongs to its function.
    cold = next((part for part in elf.functions if part[2] == "several.cold"), None)
    assert cold is not None
    assert address["several"] in [owner for start, _, owner in ksyms.parts_of(elf, places) if start == cold[0]]


@pytest.mark.parametrize("way", ["ret $8", "repz ret", "jmp other", "js other"])
def test_a_function_with_a_way_out_that_no_probe_sees_is_left_out(tmp_path, capsys, way):
    path = link(tmp_path, "-fno-optimize-sibling-calls", leaves=f'asm volatile("{way}");')
    elf = ksyms.Elf(path)
    address = {name: address for address, _, name, _ in elf.functions}
    places, returns = ksyms.probes_of(ksyms.disassemble(path), elf)
    assert places == sorted(address[name] for name in ("failed", "other", "several"))
    ends = {start: start + size for start, size, _, _ in elf.functions}
    assert not [at for at, _ in returns if address["leaves"] <= at < ends[address["leaves"]]]
    assert {places[place] for _, place in returns} == set(places)
    assert re.fullmatch(rf"ksyms: warning: leaves cannot be probed: it is left at 0x[0-9a-f]+ by '{way.split()[0]}.*'\n", capsys.readouterr().err)


def test_an_empty_cold_part_is_not_a_way_out(tmp_path, capsys):
    cold = 'asm(".text; .balign 16; .type leaves.cold, @function; leaves.cold: .size leaves.cold, 0");'
    leaves = f'asm volatile("js leaves.cold"); return other(a); }} {cold} int next(int a) {{'
    path = link(tmp_path, "-fno-optimize-sibling-calls", "-fno-toplevel-reorder", leaves=leaves)
    elf = ksyms.Elf(path)
    address = {name: address for address, _, name, _ in elf.functions}
    places, returns = ksyms.probes_of(ksyms.disassemble(path), elf)
    assert address["leaves.cold"] in places and address["leaves"] in places
    assert {places[place] for _, place in returns} == set(places)
    assert not capsys.readouterr().err


def test_a_probes_handler_calls_nothing_that_can_be_probed(tmp_path, monkeypatch):
    for handler, fine in (("failed", True), ("several", False), ("hidden", True), ("calls_other", False)):
        path = link(tmp_path, "-fno-optimize-sibling-calls", "-fno-inline",
                    leaves="} __attribute__((no_instrument_function)) int calls_other(int a) { other(a); return other(a) + 1; } int more(int a) {")
        elf = ksyms.Elf(path)
        places = [place for place in elf.places() if (place, "failed") not in [(a, n) for a, _, n, _ in elf.functions]]
        monkeypatch.setattr(ksyms, "HANDLERS", (handler,))
        with contextlib.nullcontext() if fine else pytest.raises(SystemExit, match="which can be probed itself"):
            ksyms.check_handlers(ksyms.disassemble(path), elf, places)


def test_the_code_begins_where_the_kernel_thinks(tmp_path):
    with pytest.raises(SystemExit, match="kProbeText"):
        ksyms.Elf(link(tmp_path, "-fno-optimize-sibling-calls", "-Wl,-Ttext=0xffffffff80200000"))


def test_tables_hold_every_place(tmp_path):
    path = link(tmp_path, "-fno-optimize-sibling-calls")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        ksyms.emit(path)
    assert "probe_place_count: .long 4\n" in text.getvalue()
    subprocess.run(["gcc", "-c", "-x", "assembler", "-", "-o", "/dev/null"], input=text.getvalue(), check=True, text=True)
