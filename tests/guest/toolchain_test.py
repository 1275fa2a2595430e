"""The compilers of the toolchain with the flags of usual makefiles: either the compiled program runs in the guest, or the compiler refuses the
flag with one line."""
import concurrent.futures
import os
import re
import subprocess

import pytest

from guest import TOOLCHAIN, guest

GCC, GXX = (TOOLCHAIN / f"bin/x86_64-stele-elf-{name}" for name in ("gcc", "g++"))

C_PROGRAM = r"""
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread int of_thread = 40;
static float numbers[64];
static jmp_buf place;

static int compare(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}
__attribute__((noinline)) static int copied(const char* text) {
  char buffer[32];
  strcpy(buffer, text);
  return (int)strlen(buffer);
}

int main(int argc, char** argv) {
  char* words[3];
  int status = 0, i;
  float sum = 0;
  words[0] = "c", words[1] = "a", words[2] = "b";
  qsort(words, 3, sizeof words[0], compare);
  for (i = 0; i < 64; i++) numbers[i] = (float)(i * argc);
  for (i = 0; i < 64; i++) sum += numbers[i] * 2.0f;
  if (fork() == 0) {
    of_thread++;
    _exit(of_thread + copied(argv[argc - 1]) - (int)strlen(argv[argc - 1]));
  }
  wait(&status);
  if (setjmp(place) == 0) longjmp(place, 1);
  printf("%s%s%s %.2f %d %d %d\n", words[0], words[1], words[2], sum, WEXITSTATUS(status), of_thread, getauxval(AT_PAGESZ) == 4096);
  return 0;
}
"""
C_OUTPUT = "abc 8064.00 41 40 1"

CXX_PROGRAM = r"""
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>

struct Last {
  ~Last() { std::puts("end"); }
} last;
#if __cplusplus >= 201103L
struct OfThread {
  int n;
  OfThread() : n(3) {}
  ~OfThread() { std::puts("thread"); }
};
thread_local OfThread of_thread;
#endif

int sizes(const std::map<std::string, int>& map) {
  if (map.size() > 2) throw std::length_error("many");
  return static_cast<int>(map.size());
}

int main() {
  std::map<std::string, int> map;
  map["a"] = 1, map["b"] = 2;
  int n = sizes(map);
#if __cplusplus >= 201103L
  n += of_thread.n;
#endif
  map["c"] = 3;
  try {
    sizes(map);
  } catch (const std::exception& error) {
    std::printf("%s %d\n", error.what(), n);
  }
}
"""

C_FLAGS = """
-O0
-O1 -g
-O2
-O3
-Os
-Ofast
-g3 -ggdb
-fPIC
-O2 -fpic -g
-fPIE -pie
-fpie -static-pie
-static
-no-pie
-fomit-frame-pointer
-O2 -fomit-frame-pointer -fPIC
-fstack-protector
-O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wformat -Werror=format-security
-fstack-protector-all -fPIC
-fstack-clash-protection -fcf-protection
-pthread
-O2 -flto
-flto -fPIC -fuse-linker-plugin
-O2 -march=x86-64-v2
-O3 -march=x86-64-v3
-O3 -mavx -ffast-math
-O3 -mavx2 -mfma -mtune=haswell
-O2 -msse4.2 -mno-red-zone
-mcmodel=medium
-Os -ffunction-sections -fdata-sections -Wl,--gc-sections
-Wl,-z,relro,-z,now -Wl,-O1
-Wl,--as-needed -lm -ldl -lrt -lpthread -lutil
-rdynamic -fvisibility=hidden
-s
-std=gnu99 -pedantic
-std=gnu17 -Wall -Wextra -Werror -Wno-discarded-qualifiers
-O2 -fsanitize=undefined -fsanitize-undefined-trap-on-error
-funwind-tables -fexceptions -fno-plt
-O2 -funroll-loops -ftree-vectorize -fno-strict-aliasing -fwrapv
""".strip().splitlines()
CXX_FLAGS = """
-std=c++98
-std=c++11 -fPIC
-O2 -std=c++17 -fomit-frame-pointer -fstack-protector-strong
-O2 -std=c++20 -flto
""".strip().splitlines()

REFUSED = {
    "-shared": "-shared: there are no shared libraries on Stele",
    "-fPIC -shared -Wl,-soname,libx.so": "-shared: there are no shared libraries on Stele",
    "-m32": "-m32: programs of Stele have 64 bits",
    "-mcmodel=large": "-mcmodel=large: programs lie below 2 GB on Stele; -mcmodel=medium is for large data",
    "-march=native": "-march=native: a program runs in a guest, not on the machine that compiles it; name the processor",
    "-fsanitize=address": "-fsanitize=address: the sanitizers' libraries do not exist on Stele",
    "-fsanitize=undefined": "-fsanitize=undefined: only with -fsanitize-undefined-trap-on-error: there is no library that reports",
    "-O2 -pg": "-pg: there is no profiler of this kind on Stele; stackcount counts calls",
    "--coverage": "--coverage: nothing collects profiles and coverage of programs on Stele",
    "-fopenmp": "-fopenmp: its library does not exist on Stele; pthread.h and <thread> do",
}


def compile_with(compiler, source, flags, output):
    """Calls the compiler with options before the source and libraries after it, as makefiles do."""
    libraries = [flag for flag in flags.split() if flag.startswith("-l")]
    options = [flag for flag in flags.split() if flag not in libraries]
    return subprocess.run([compiler, *options, source, *libraries, "-o", output], capture_output=True, text=True, check=False)


@pytest.fixture(name="sources")
def fixture_sources(tmp_path):
    """Writes a C and a C++ program. Returns their paths."""
    (tmp_path / "c.c").write_text(C_PROGRAM)
    (tmp_path / "cxx.cc").write_text(CXX_PROGRAM)
    return tmp_path / "c.c", tmp_path / "cxx.cc"


def test_forty_combinations_of_flags(sources):
    """With each combination of flags the compiled program runs and prints the right output. All programs run in one guest."""
    assert len(C_FLAGS) + len(CXX_FLAGS) >= 40
    folder = sources[0].parent
    wanted = [(GCC, sources[0], flags) for flags in C_FLAGS] + [(GXX, sources[1], flags) for flags in CXX_FLAGS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda each: compile_with(*each[1], folder / f"{each[0]:02}"), enumerate(wanted))
    for (_, _, flags), run in zip(wanted, runs):
        assert (run.returncode, run.stderr) == (0, ""), flags
    programs = " ".join(f"{number:02}" for number in range(len(wanted)))
    result = guest(f"for i in {programs}; do /host/$i word || echo status $?; echo; done", "--share", str(folder))
    assert (result.status, result.stderr) == (0, "")
    outputs = result.stdout.split("\n\n")
    assert len(outputs) == len(wanted) + 1
    for (compiler, _, flags), output in zip(wanted, outputs):
        if compiler == GCC:
            expected = C_OUTPUT
        else:
            expected = "many 2\nend" if "c++98" in flags else "many 5\nthread\nend"
        assert output == expected, flags


def test_other_flags_are_refused_in_a_line(sources):
    """An unsupported flag is refused, never ignored."""
    for flags, message in REFUSED.items():
        run = compile_with(GCC, sources[0], flags, sources[0].parent / "out")
        assert (run.returncode, run.stdout, run.stderr) == (1, "", f"x86_64-stele-elf-gcc: {message}\n")
    assert not (sources[0].parent / "out").exists()


def test_nothing_of_the_host_is_seen(sources):
    """The compilers link no library of the host and include no header of the host, except headers of gcc itself."""
    run = compile_with(GCC, sources[0], "-lz", sources[0].parent / "out")
    assert run.returncode != 0
    assert re.fullmatch(r"(?s).*cannot find -lz.*", run.stderr), run.stderr
    linked = subprocess.run([GCC, sources[0], "-o", sources[0].parent / "out", "-Wl,-t"], capture_output=True, text=True, check=True).stdout.split()
    inside = (str(TOOLCHAIN), "/tmp/", str(sources[0].parent))
    assert len(linked) > 5
    assert not [file for file in linked if not file.startswith(inside)]
    (sources[0].parent / "linux.c").write_text("#include <linux/version.h>\n")
    run = compile_with(GCC, sources[0].parent / "linux.c", "-c", sources[0].parent / "out")
    assert "linux/version.h: No such file" in run.stderr
    headers = subprocess.run([GCC, "-M", sources[0]], capture_output=True, text=True, check=True).stdout.replace("\\\n", " ").split()[2:]
    compilers_own = subprocess.run(["gcc", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    assert not [file for file in headers if not file.startswith((str(TOOLCHAIN), compilers_own))]


def test_linux_does_not_run_a_program(sources):
    """On Linux, the program prints a message and ends."""
    program = sources[0].parent / "program"
    assert compile_with(GCC, sources[0], "-O2", program).returncode == 0
    run = subprocess.run([program], capture_output=True, text=True, timeout=10, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (126, "", "this is a program of Stele: it does not run on another system\n")


def test_stack_protector_ends_a_program(sources):
    """The stack protector's canary differs from run to run. If a function has overwritten its frame, the program is aborted before the function
    returns."""
    source = sources[0].parent / "smash.c"
    source.write_text(r"""
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) static void fill(int n) {
  volatile char buffer[16];
  for (int i = 0; i < n; i++) buffer[i] = 1;
}
int main(int argc, char** argv) {
  unsigned long canary;
  __asm__("movq %%fs:0x28, %0" : "=r"(canary));
  printf("%lx\n", canary);
  fflush(stdout);
  fill(argc > 1 ? 40 : 16);
  return 3;
}
""")
    assert compile_with(GCC, source, "-O2 -fstack-protector-strong", sources[0].parent / "smash").returncode == 0
    result = guest("/host/smash; echo $?; /host/smash x; echo $?", "--share", str(source.parent))
    first, status, second, end = result.stdout.split()
    assert first != second and first.endswith("00") and second.endswith("00") and len(first) > 8
    assert (status, end, result.stderr) == ("3", "134", "*** stack smashing detected ***: terminated\nIOT trap\n")


def test_answers_of_config_site(sources):
    """config.site has the answers that Autoconf's test programs would give in the guest."""
    source = sources[0].parent / "site.c"
    source.write_text(r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int mktime_works(void) {
  for (time_t t = 0; t < 2000000000; t += 86399 * 17) {
    struct tm tm = *localtime(&t);
    if (mktime(&tm) != t) return 0;
  }
  return 1;
}
static int ends_with_3(pid_t child) {
  int status;
  if (child == 0) _exit(3);
  return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3;
}
static void say(const char* name, int yes) {
  printf("ac_cv_func_%s=%s\n", name, yes ? "yes" : "no");
  fflush(stdout);
}

int main(void) {
  struct stat status;
  int file = open("/bin/sh", O_RDONLY);
  void* fixed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  say("malloc_0_nonnull", malloc(0) != NULL);
  say("realloc_0_nonnull", realloc(NULL, 0) != NULL);
  say("fork_works", ends_with_3(fork()));
  say("vfork_works", ends_with_3(vfork()));
  say("memcmp_working", memcmp("\100", "\200", 1) < 0 && memcmp("12345678901234567890\1", "12345678901234567890\200", 22) < 0);
  say("strnlen_working", strnlen("foobar", 0) == 0 && strnlen("foobar", 3) == 3 && strnlen("foobar", 9) == 6);
  say("working_mktime", mktime_works());
  say("stat_empty_string_bug", stat("", &status) == 0);
  say("mmap_fixed_mapped", mmap(fixed, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == fixed);
}
""")
    run = compile_with(GCC, source, "-O2 -D_GNU_SOURCE", source.parent / "site")
    assert (run.returncode, run.stderr) == (0, "")
    result = guest("/host/site", "--share", str(source.parent))
    answers = [line for line in (TOOLCHAIN / "share/config.site").read_text().splitlines() if not line.startswith("#")]
    assert (result.status, result.stdout.splitlines()) == (0, answers)
