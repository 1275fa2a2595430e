"""Makes the assembler source of the kernel's symbol table and tables of probes (section .ksyms)
from a linked kernel.

    python3 tools/stele/ksyms.py stele.pass1 > ksyms.S
    python3 tools/stele/ksyms.py --empty > ksyms.S                 # writes empty tables
    python3 tools/stele/ksyms.py --compare stele.pass1 stele.elf   # fails if a symbol moved between the two links

`ksyms_start`, the table of functions, consists of:

- u32 count: the number of functions;
- u32 offset[count]: the addresses of the functions minus 0xffffffff80000000, in ascending order;
- u32 name[count + 1]: the offset of each name in the bytes of the names, and the number of these bytes;
- the bytes of the names. Each name ends with a NUL.

If several functions have one name, .2, .3 … is appended to the name from the second function on, in
order of addresses. So each name is unique.

`data_symbols`, the table of variables, has the same form. Its offsets count from the beginning of the
data, because the data moves when these tables grow. An entry with an empty name marks the beginning of
data that belongs to no symbol.

The tables of probes (kern/probe/places_impl.h) are `probe_places`, the functions that begin with a
five-byte nop, and `probe_returns`, the `ret` instructions of these functions. The tables leave out a
function, with a warning, if a direct jump or another form of `ret` leaves it: no probe would see it.
"""
import bisect
import os
import re
import struct
import subprocess
import sys

IMAGE_BASE = 0xFFFFFFFF80000000
TEXT = IMAGE_BASE + 0x100000  # kProbeText
HANDLERS = ("probe_entry", "probe_called", "probe_kept_out", "probe_breakpoint")  # functions of probe/kernel_probes.cc
SANITIZERS = ("__ubsan_handle_", "kasan_report")  # functions that report a finding, and then panic
ENTRY = bytes.fromhex("0f1f440000")  # the nop with which functions begin: gcc's -pg -mfentry -mnop-mcount
BLOCK = 64  # kProbeBlock: probe_place_blocks and probe_return_blocks have one entry for each 64 bytes of code
GAP = 64
SHT_SYMTAB, STT_FUNC, STT_FILE = 2, 2, 4


def plain_name(symbol):
    """Returns a function's name without parameter list, template arguments, return type and the compiler's suffixes for clones."""
    symbol = re.sub(r" \[clone [^\]]*\]", "", symbol)
    symbol = symbol.replace("(anonymous namespace)::", "").replace(" const::", "::")
    symbol = re.sub(r"\.(part|isra|constprop|cold|lto_priv)(\.\d+)?", "", symbol)
    out, angles, parens = [], 0, 0
    operator = re.search(r"\boperator(\(\)|\[\]|([-+*/%^&|~!=,>]|<(?!\w))+)", symbol)  # not the < of a template
    for i, c in enumerate(symbol):
        if operator and operator.start() <= i < operator.end():
            out.append(c)
        elif c == "(":
            parens += 1
        elif c == ")":
            parens -= 1
            # The last parameter list is the function's own. A list before it belongs to an enclosing function or to a lambda.
            if parens == 0 and angles == 0 and not re.match(r"( const)?::|#", symbol[i + 1:]):
                break
        elif parens == 0 and c == "<":
            angles += 1
        elif parens == 0 and c == ">":
            angles -= 1
        elif parens == 0 and angles == 0:
            out.append(c)
    name = "".join(out).strip()
    return name.split(" ")[-1] if " " in name and "operator" not in name else name


def functions(lines):
    """Returns [(address, unique name)] of the text symbols in the output of nm, in order of addresses."""
    seen = {}
    for line in lines:
        match = re.match(r"([0-9a-f]{16}) ([tTwW]) (.+)", line)
        if not match:
            continue
        address, name = int(match[1], 16), plain_name(match[3])
        if address >= IMAGE_BASE and name and not name.startswith(".") and address not in seen:
            seen[address] = name
    counts, result = {}, []
    for address in sorted(seen):
        name = seen[address]
        counts[name] = counts.get(name, 0) + 1
        result.append((address, name if counts[name] == 1 else f"{name}.{counts[name]}"))
    return result


def variables(lines):
    """Returns [(offset from the beginning of the data, name)] of writable symbols in the output of nm -S, in order of offsets. An entry with an
    empty name marks the beginning of at least GAP bytes that belong to no symbol, or the end of the last variable."""
    found = {}
    for line in lines:
        match = re.match(r"([0-9a-f]{16}) (?:([0-9a-f]{16}) )?([bBdDuV]) (.+)", line)
        if not match:
            continue
        if match[4] == "data_start":
            start = int(match[1], 16)
        elif match[2]:  # labels of the linker script have no size
            found.setdefault(int(match[1], 16), (int(match[2], 16), match[4].replace("(anonymous namespace)::", "")))
    result, end = [], None
    for address, (size, name) in sorted(item for item in found.items() if item[0] >= start):
        if end and address >= end + GAP:
            result.append((end - start, ""))
        result.append((address - start, name))
        end = address + size
    return [*result, (end - start, "")] if end else []


def nm(path, *options):
    return subprocess.run(["nm", "-C", *options, path], check=True, capture_output=True, text=True).stdout.splitlines()


class Elf:
    """The needed parts of a linked kernel: its text, and its functions."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.image = file.read()
        (offset,) = struct.unpack_from("<Q", self.image, 0x28)
        size, count, names = struct.unpack_from("<HHH", self.image, 0x3A)
        # name, type, flags, address, offset, size, link, info, alignment, entry size
        headers = [struct.unpack_from("<IIQQQQIIQQ", self.image, offset + i * size) for i in range(count)]
        self.sections = {self.string(headers[names][4] + header[0]): header for header in headers}
        text = self.sections[".text"]
        self.start, self.text = text[3], self.image[text[4]:text[4] + text[5]]
        if self.start != TEXT:
            sys.exit(f"ksyms: the code begins at {self.start:#x}, and kProbeText says {TEXT:#x}")
        symbols = next(header for header in headers if header[1] == SHT_SYMTAB)
        self.read_functions(symbols, headers[symbols[6]][4])

    def string(self, offset):
        return self.image[offset:self.image.index(b"\0", offset)].decode()

    def read_functions(self, symbols, strings):
        """Sets self.functions to [(address, size, name, file)]. `file` is a number that distinguishes local functions of the same name in different
        source files; it is 0 for global functions."""
        self.functions, file = [], 0
        for offset in range(symbols[4], symbols[4] + symbols[5], 24):
            name, info, _, _, address, size = struct.unpack_from("<IBBHQQ", self.image, offset)
            if info & 15 == STT_FILE:
                file += 1
            elif info & 15 == STT_FUNC and self.start <= address < self.start + len(self.text):
                self.functions.append((address, size, self.string(strings + name), file if info >> 4 == 0 else 0))

    def places(self):
        """Returns the addresses of the functions that begin with the nop, in order."""
        at = {address for address, _, _, _ in self.functions}
        return sorted(a for a in at if self.text[a - self.start:a - self.start + len(ENTRY)] == ENTRY)


def parts_of(elf, places):
    """Returns [(start, end, address of the function)] in order of addresses: an entry for each function in `places`, and an entry for each cold part
    that gcc has moved out of such a function. A cold part is empty if its code can never run; another function then begins at its address."""
    by_name = {(name, file): address for address, _, name, file in elf.functions}
    parts = set()
    for address, size, name, file in elf.functions:
        whole = name.removesuffix(".cold")
        owner = address if whole == name else by_name.get((whole, file), by_name.get((whole, 0)))
        if owner is None:
            sys.exit(f"ksyms: {name} belongs to no function")
        if owner in places:
            parts.add((address, address + size, owner))
    return sorted(parts)


def disassemble(path):
    return subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-j", ".text", path], check=True, capture_output=True, text=True).stdout


def probes_of(listing, elf):
    """Returns the addresses of the functions that begin with the nop and are left only by `ret`, and [(address of a `ret`, index of its function)],
    both in order of addresses. Warns about a function that a direct jump, or another form of `ret`, leaves."""
    places = elf.places()
    parts = parts_of(elf, set(places))
    starts = [part[0] for part in parts]

    def owner(address):
        part = parts[bisect.bisect_right(starts, address) - 1]
        return part[2] if part[0] <= address < part[1] else None

    def is_in(place, address):
        return owner(address) == place or (address, address, place) in parts

    returns, left = [], {}
    for match in re.finditer(r"^([0-9a-f]{16}):\t(repz ret|ret|j\w+)\b *(\S*)", listing, re.MULTILINE):
        address, instruction, target = int(match[1], 16), match[2], match[3]
        place = owner(address)
        if place is None:
            continue
        if instruction == "ret" and not target:
            returns.append((address, place))
        elif instruction.endswith("ret") or (not target.startswith("*") and not is_in(place, int(target, 16))):
            left[place] = f"{address:#x} by '{instruction} {target}'"
    for place, way in left.items():
        names = " ".join(name for address, _, name, _ in elf.functions if address == place)
        print(f"ksyms: warning: {names} cannot be probed: it is left at {way}", file=sys.stderr)
    places = [place for place in places if place not in left]
    index = {place: i for i, place in enumerate(places)}
    return places, [(address, index[place]) for address, place in returns if place in index]


def check_handlers(listing, elf, places):
    """Exits if one of HANDLERS, or a function that they call directly or indirectly, can be probed. Some of this code runs while no guard prevents
    hits (kernel_probes.cc), so a probe in it would hit itself. SANITIZERS are left out."""
    at = {name: (address, address + size) for address, size, name, _ in elf.functions}
    calls = [(int(match[1], 16), int(match[2], 16))
             for match in re.finditer(r"^([0-9a-f]{16}):\tcall +([0-9a-f]+) ", listing, re.MULTILINE)]
    waiting, seen = [at[name] for name in HANDLERS if name in at], set()
    while waiting:
        start, end = waiting.pop()
        if start in places:
            sys.exit(f"ksyms: a probe's hit calls the function at {start:#x}, which can be probed itself")
        seen.add(start)
        called = {target for address, target in calls if start <= address < end}
        waiting += [(address, address + size) for address, size, name, _ in elf.functions
                    if address in called - seen and not name.startswith(SANITIZERS)]


def emit_array(directive, values):
    values = list(values)
    for i in range(0, len(values), 16):
        print(directive, ",".join(str(value) for value in values[i:i + 16]))


def emit_symbols(label, symbols):
    """`symbols`: [(offset, name)]"""
    print(f'.section .ksyms, "a"\n.balign 8\n.globl {label}\n{label}:')
    print(f".long {len(symbols)}")
    emit_array(".long", (f"{offset:#x}" for offset, _ in symbols))
    at = 0
    for _, name in symbols:
        print(f".long {at}")
        at += len(name) + 1
    print(f".long {at}")
    for _, name in symbols:
        print(f'.asciz "{name}"')


def emit_probes(start, size, places, returns):
    # A sentinel ends the tables of offsets, so that a search loop may read one entry too far.
    print(".balign 8\n.globl probe_places, probe_place_count, probe_place_blocks")
    print(".globl probe_returns, probe_return_count, probe_return_blocks, probe_return_places")
    print(f"probe_place_count: .long {len(places)}\nprobe_return_count: .long {len(returns)}\nprobe_places:")
    emit_array(".long", [f"{address - start:#x}" for address in places] + [0xFFFFFFFF])
    print("probe_returns:")
    emit_array(".long", [f"{address - start:#x}" for address, _ in returns] + [0xFFFFFFFF])
    print("probe_place_blocks:")
    emit_array(".short", (bisect.bisect_left(places, start + at) for at in range(0, size, BLOCK)))
    print("probe_return_blocks:")
    emit_array(".short", (bisect.bisect_left(returns, (start + at, 0)) for at in range(0, size, BLOCK)))
    print("probe_return_places:")
    emit_array(".short", [place for _, place in returns] + [0])
    print('.section .bss.probes, "aw", @nobits\n.balign 64\n.globl probe_lists, probe_places_changing, probe_returns_changing')
    print(f"probe_lists: .space {8 * len(places) + 8}")
    print(f"probe_places_changing: .space {len(places) + 1}\nprobe_returns_changing: .space {len(returns) + 1}")


def emit(path):
    symbols, data, start, size, places, returns = [], [], 0, 0, [], []
    if path:
        elf = Elf(path)
        symbols, data = functions(nm(path)), variables(nm(path, "-S"))
        start, size, listing = elf.start, len(elf.text), disassemble(path)
        places, returns = probes_of(listing, elf)
        check_handlers(listing, elf, places)
    emit_symbols("ksyms_start", [(address - IMAGE_BASE, name) for address, name in symbols])
    emit_symbols("data_symbols", data)
    emit_probes(start, size, places, returns)
    print('.section .note.GNU-stack, "", @progbits')


def main():
    if sys.argv[1] != "--compare":
        emit(None if sys.argv[1] == "--empty" else sys.argv[1])
        return
    before, after = sys.argv[2:]
    if functions(nm(before)) != functions(nm(after)):
        sys.exit("ksyms: functions moved between the two links")
    if variables(nm(before, "-S")) != variables(nm(after, "-S")):
        sys.exit("ksyms: variables moved between the two links")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from stele import entry
    entry.run(main, "ksyms", failed=1)
