"""Turns the output of `nm -C` into the assembler source of the kernel's symbol table (section .ksyms).

    nm -C stele.pass1 | python3 tools/stele/ksyms.py > ksyms.S
    python3 tools/stele/ksyms.py --compare stele.pass1 stele.elf   # fails if a function moved between the two links

The table: u32 count; u32 offset[count], ascending, from 0xffffffff80000000; u32 name[count + 1], offsets into the names; the
names, each with its NUL. Functions of one name get .2, .3 … in order of address, so that a name and an offset say which.
"""
import re
import subprocess
import sys

IMAGE_BASE = 0xFFFFFFFF80000000


def plain_name(symbol):
    """A function's name without parameter list, template arguments, return type and the compiler's clone suffixes."""
    symbol = re.sub(r" \[clone [^\]]*\]", "", symbol)
    symbol = symbol.replace("(anonymous namespace)::", "").replace(" const::", "::")
    symbol = re.sub(r"\.(part|isra|constprop|cold|lto_priv)(\.\d+)?", "", symbol)
    out, angles, parens = [], 0, 0
    operator = symbol.find("operator")
    for i, c in enumerate(symbol):
        if operator >= 0 and operator <= i < operator + 10:
            out.append(c)
        elif c == "(":
            parens += 1
        elif c == ")":
            parens -= 1
            # The last list is the function's own; others belong to what it is defined in, or to a lambda.
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
    """[(address, unique name)] of the text symbols in nm's output, ascending."""
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


def nm(path):
    return subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout.splitlines()


def emit(symbols):
    print('.section .ksyms, "a"\n.balign 8\n.globl ksyms_start\nksyms_start:')
    print(f".long {len(symbols)}")
    for address, _ in symbols:
        print(f".long {address - IMAGE_BASE:#x}")
    at = 0
    for _, name in symbols:
        print(f".long {at}")
        at += len(name) + 1
    print(f".long {at}")
    for _, name in symbols:
        print(f'.asciz "{name}"')
    print('.section .note.GNU-stack, "", @progbits')


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        if functions(nm(sys.argv[2])) != functions(nm(sys.argv[3])):
            sys.exit("ksyms: functions moved between the two links")
    else:
        emit(functions(sys.stdin))
