"""scripts/check-stacks finds large frames, unbounded recursion, and paths that exceed the stack."""
import os
import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path("scripts/check-stacks").resolve()
FLAGS = ["-O1", "-g", "-ffreestanding", "-fno-pic", "-no-pie", "-mcmodel=kernel", "-mno-red-zone", "-mgeneral-regs-only", "-fno-omit-frame-pointer",
         "-fno-optimize-sibling-calls", "-fno-stack-protector", "-fcf-protection=none", "-fno-asynchronous-unwind-tables", "-fno-inline", "-fno-rtti"]
START = """
#define KEEP __attribute__((noipa))
extern "C" KEEP void leaf(volatile char* at) { *at = 1; }
template <unsigned long size> KEEP void use() { volatile char memory[size]; leaf(memory); }
"""


def check(tmp_path, text, *options):
    """Checks a kernel whose system calls run this code. Returns the exit status and the output."""
    folder = tmp_path / "kern"
    folder.mkdir()
    (folder / "x.cc").write_text(START + text)
    subprocess.run(["g++", "-std=c++20", *FLAGS, "-fno-exceptions", "-c", "kern/x.cc", "-o", "x.o"], cwd=tmp_path, check=True)
    subprocess.run(["ld", "-Ttext=0xffffffff80100000", "-Tdata=0xffffffff80300000", "-e", "system_call_entry", "x.o", "-o", "kernel"], cwd=tmp_path,
                   check=True, capture_output=True)
    run = subprocess.run([SCRIPT, *options, "kernel"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not run.stderr
    return run.returncode, run.stdout


DATA = "\nextern const long rodata; const long rodata = 1; long data = 1;\n"


def entry(body):
    return f'extern "C" KEEP void system_call_entry() {{ {body} }}' + DATA


def test_small_frames(tmp_path):
    assert check(tmp_path, entry("use<400>();")) == (0, "")


def test_a_large_frame(tmp_path):
    status, output = check(tmp_path, entry("use<600>();"))
    assert status == 1 and "use<600ul>() has a frame of 6" in output and "512 are allowed" in output and output.count("\n") == 1


@pytest.mark.parametrize(("allowed", "status"), ((700, 0), (600, 1)))
def test_a_large_frame_with_a_reason(tmp_path, allowed, status):
    text = f"""
// Does this and that.
// stack: a frame of up to {allowed} bytes, because
// there is a reason.
KEEP void large() {{ volatile char memory[620]; leaf(memory); }}
"""
    assert check(tmp_path, text + entry("large();"))[0] == status


def test_a_frame_of_unknown_size(tmp_path):
    text = "KEEP void dynamic(unsigned size) { auto* m = (volatile char*)__builtin_alloca(size); leaf(m); }\n"
    status, output = check(tmp_path, text + entry("dynamic(7);"))
    assert status == 1 and "dynamic(unsigned int): the size of the frame is not known before run time" in output


TWO = "void b(int);\n%sKEEP void a(int n) { volatile char m[100]; leaf(m); if (n) b(n - 1); leaf(m); }\nKEEP void b(int n) { a(n); leaf(0); }\n"


def test_recursion(tmp_path):
    status, output = check(tmp_path, TWO % "" + entry("a(3);"))
    assert status == 1 and "recursion without a comment that bounds it: " in output and "a(int)" in output and "b(int)" in output


@pytest.mark.parametrize(("comment", "status"), (("recursion up to 3 deep, because n is 3 at most.", 0), ("no recursion, because n is 0.", 0),
                                                 ("recursion up to 200 deep, because n is 200 at most.", 1), ("recursion.", 1)))
def test_bounded_recursion(tmp_path, comment, status):
    result, output = check(tmp_path, TWO % f"// stack: {comment}\n" + entry("a(3);"))
    assert result == status
    assert ("the deepest path from system_call_entry needs " in output) == ("200" in comment)


@pytest.mark.parametrize(("functions", "status"), ((20, 0), (40, 1)))
def test_a_deep_path(tmp_path, functions, status):
    text = "".join(f"KEEP void f{i}() {{ volatile char m[400]; leaf(m); {f'f{i - 1}();' if i else ''} leaf(m); }}\n" for i in range(functions))
    result, output = check(tmp_path, text + entry(f"f{functions - 1}();"), "--path", "system_call_entry")
    assert result == status and "f7()" in output
    assert ("the deepest path from system_call_entry needs " in output) == bool(status)


CLASSES = """
struct Base {{ virtual void other(); virtual void run(int n) = 0; }};
void Base::other() {{}}
struct Derived : Base {{ void {method}(int n); Base* next; }};
void Derived::{method}(int n) {{ if (n) next->run(n - 1); leaf(0); }}
struct Plain final : Base {{ void run(int) override {{ leaf(0); }} }};
Plain plain;
extern "C" void __cxa_pure_virtual() {{}}
"""


def test_recursion_through_a_virtual_method(tmp_path):
    text = CLASSES.format(method="run") + "Derived derived;\n"
    status, output = check(tmp_path, text + entry("derived.next = &plain; derived.next->run(3);"))
    assert status == 1 and "recursion without a comment that bounds it: Derived::run(int)" in output


def test_a_call_through_a_pointer_that_is_not_known(tmp_path):
    text = "KEEP void back() { leaf(0); }\nvoid (*pointer)() = back;\n"
    status, output = check(tmp_path, text + entry("pointer();"))
    assert status == 1
    assert "system_call_entry calls through a pointer that POINTERS of scripts/check-stacks lacks" in output
    assert "the address of back() is taken, but no line of POINTERS in scripts/check-stacks says who calls it" in output


def test_the_kernel():
    run = subprocess.run([SCRIPT, pathlib.Path(os.environ["STELE_BUILD"]) / "stele.elf"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
