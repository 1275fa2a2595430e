// probetest WHAT [N]: a program for tests, which probe its functions. The tests know which calls it
// makes, how many, and with which results. The exit status is 0 if the program behaves as without
// probes.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <abi/syscall.h>
#include <elf.h>

extern "C" {
extern const Elf64_Ehdr __ehdr_start;
volatile unsigned long probetest_sink;

// --- Probed functions. noipa: no call is inlined or optimized with knowledge of the function.

[[gnu::noipa]] unsigned long probetest_leaf(unsigned long a, unsigned long b) {
  return a * 3 + b;
}
[[gnu::noipa]] unsigned long probetest_outer(unsigned long a) {
  return probetest_leaf(a, 1) + probetest_leaf(a, 2);
}
[[gnu::noipa]] unsigned long probetest_recursive(unsigned long depth) {
  return depth == 0 ? 0 : probetest_recursive(depth - 1) + 1;
}
// This function has two returns.
[[gnu::noipa]] unsigned long probetest_branch(unsigned long a) {
  if (a % 2 == 0) return probetest_leaf(a, 0);
  probetest_sink = a;
  return probetest_leaf(a, 1) + probetest_leaf(a, 2);
}
[[gnu::noipa]] unsigned long probetest_throw(unsigned long depth) {
  if (depth == 0) throw 7;
  return probetest_throw(depth - 1) + 1;
}
static jmp_buf probetest_place;
// Always 0. It is volatile to hide from the compiler that probetest_jump() never returns.
static volatile unsigned long probetest_zero;
[[gnu::noipa]] unsigned long probetest_jump(unsigned long depth) {
  if (depth > probetest_zero) return probetest_jump(depth - 1) + 1;
  if (depth == probetest_zero) longjmp(probetest_place, 5);
  return 0;
}
static volatile unsigned long handled;
[[gnu::noipa]] void probetest_handler(int) {
  handled = handled + probetest_leaf(1, 0);
}
[[gnu::noipa]] void probetest_forever() {
  for (;;) probetest_sink = probetest_leaf(probetest_sink, 1);
}

// Before its `ret`, probetest_return_nowhere() sets the stack pointer to an unmapped address, and
// probetest_return_elsewhere() to a page of the program's data that has not been read yet.
void probetest_return_nowhere();
unsigned long probetest_return_elsewhere(unsigned long a);
asm(R"(
        .text
        .globl probetest_return_nowhere, probetest_return_elsewhere
        .type probetest_return_nowhere, @function
probetest_return_nowhere:
        .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
        movq $0x123450, %rsp
        ret
        .size probetest_return_nowhere, . - probetest_return_nowhere
        .type probetest_return_elsewhere, @function
probetest_return_elsewhere:
        .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
        movq %rsp, %rcx
        leaq 1(%rdi), %rax
        movq $elsewhere, %rsp
        ret
1:      movq %rcx, %rsp
        popq %rcx
        jmp *%rcx
        .size probetest_return_elsewhere, . - probetest_return_elsewhere
        .pushsection .data
        .balign 4096
        .fill 2048
elsewhere: .quad 1b
        .balign 4096
        .popsection
)");
}

namespace {

int wait_for(pid_t pid) {
  int status = -1;
  while (waitpid(pid, &status, 0) < 0) continue;
  return status;
}

template <typename Body>
int in_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return wait_for(pid);
}

int calls(unsigned long n) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < n; i++) sum += probetest_outer(i);
  return sum == n * (n - 1) / 2 * 6 + n * 3 ? 0 : 1;
}

int branches(unsigned long n) {
  unsigned long sum = 0, expected = 0;
  for (unsigned long i = 0; i < n; i++) {
    sum += probetest_branch(i);
    expected += i % 2 == 0 ? i * 3 : i * 6 + 3;
  }
  return sum == expected ? 0 : 1;
}

int recursion(unsigned long n) {
  return probetest_recursive(n) == n ? 0 : 1;
}

// Throws N exceptions, each from the innermost of eleven nested calls.
int exceptions(unsigned long n) {
  unsigned long caught = 0;
  for (unsigned long i = 0; i < n; i++) {
    try {
      probetest_sink = probetest_throw(10);
    } catch (int value) {
      caught += value == 7;
    }
    if (probetest_outer(i) != i * 6 + 3) return 1;
  }
  return caught == n ? 0 : 1;
}

int jumps(unsigned long n) {
  static volatile unsigned long caught, done;
  caught = 0;
  done = 0;
  while (done < n) {
    if (setjmp(probetest_place) == 5) {
      caught = caught + 1;
    } else {
      probetest_sink = probetest_jump(10);
    }
    if (probetest_outer(done) != done * 6 + 3) return 1;
    done = done + 1;
  }
  return caught == n ? 0 : 1;
}

int signals(unsigned long n) {
  signal(SIGUSR1, probetest_handler);
  for (unsigned long i = 0; i < n; i++) raise(SIGUSR1);
  return handled == 3 * n ? 0 : 1;
}

// Forks N times. After each fork the child and the parent make the same calls.
int forks(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) {
    if (in_child([] { return calls(1); }) != 0 || calls(1) != 0) return 1;
  }
  return 0;
}

int executes(unsigned long n) {
  char count[24];
  snprintf(count, sizeof(count), "%lu", n);
  char* const arguments[] = {const_cast<char*>("probetest"), const_cast<char*>("calls"), count,
                             nullptr};
  calls(n);
  execve("/bin/probetest", arguments, environ);
  return 1;
}

// Executes a breakpoint that is part of the program.
int own_breakpoint(unsigned long) {
  const int status = in_child([] {
    asm volatile("int3");
    return 0;
  });
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP ? 0 : 1;
}

// The program maps new memory over its own code, fills it with breakpoints, and calls
// probetest_leaf.
int own_code(unsigned long) {
  const int status = in_child([] {
    const auto leaf = reinterpret_cast<uintptr_t>(probetest_leaf);
    const uintptr_t page = leaf & ~uintptr_t{4095};
    // The code that maps the memory is called the stub. It is in a page that stays mapped.
    char* const stub = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (stub == MAP_FAILED) return 1;
    // The stub calls mmap(page, 8192, RWX, FIXED|…), fills the range with int3 and jumps to
    // probetest_leaf. The stub does all this, because its mmap unmaps the code of this function.
    unsigned char* at = reinterpret_cast<unsigned char*>(stub);
    const auto put = [&](std::initializer_list<unsigned char> bytes) {
      for (const unsigned char byte : bytes) *at++ = byte;
    };
    const auto put64 = [&](uint64_t value) {
      memcpy(at, &value, sizeof(value));
      at += sizeof(value);
    };
    put({0x0f, 0x05});  // syscall; the asm statement below sets its registers
    put({0x48, 0xbf});  // mov $page, %rdi
    put64(page);
    put({0xb9, 0x00, 0x20, 0, 0});  // mov $8192, %ecx
    put({0xb0, 0xcc});              // mov $0xcc, %al
    put({0xf3, 0xaa});              // rep stosb
    put({0x48, 0xb8});              // mov $leaf, %rax
    put64(leaf);
    put({0xff, 0xe0});  // jmp *%rax
    register long r10 asm("r10") = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    register long r8 asm("r8") = -1;
    register long r9 asm("r9") = 0;
    asm volatile("jmp *%[stub]" ::[stub] "b"(stub), "a"(ABI_SYS_mmap), "D"(page), "S"(8192L),
                 "d"(7L), "r"(r10), "r"(r8), "r"(r9)
                 : "memory");
    __builtin_unreachable();
  });
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP ? 0 : 1;
}

int bad_return(unsigned long) {
  const int status = in_child([] {
    probetest_return_nowhere();
    return 0;
  });
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? 0 : 1;
}

int far_return(unsigned long) {
  return probetest_return_elsewhere(41) == 42 ? 0 : 1;
}

int forever(unsigned long) {
  probetest_forever();
  return 0;
}

int maps(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) {
    void* const memory =
        mmap(nullptr, 5000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || munmap(memory, 5000) != 0) return 1;
  }
  return 0;
}

// Returns 0 if the program's code in memory equals the code in its file, otherwise 1.
int same_text(unsigned long) {
  const int file = open("/bin/probetest", O_RDONLY);
  if (file < 0) return 1;
  const auto* headers = reinterpret_cast<const Elf64_Phdr*>(
      reinterpret_cast<uintptr_t>(&__ehdr_start) + __ehdr_start.e_phoff);
  for (int i = 0; i < __ehdr_start.e_phnum; i++) {
    const Elf64_Phdr& segment = headers[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    std::vector<char> bytes(segment.p_filesz);
    if (lseek(file, static_cast<off_t>(segment.p_offset), SEEK_SET) < 0) return 1;
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t got = read(file, bytes.data() + done, bytes.size() - done);
      if (got <= 0) return 1;
      done += static_cast<size_t>(got);
    }
    if (memcmp(bytes.data(), reinterpret_cast<const char*>(segment.p_vaddr), bytes.size()) != 0)
      return 1;
  }
  close(file);
  return 0;
}

// Runs `n` rounds of several of the functions above. It does not compare the code with the file;
// only same_text() does.
int mixed(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) {
    if (calls(50) || branches(20) || recursion(30) || exceptions(2) || jumps(2) || forks(1))
      return 1;
  }
  return 0;
}

struct {
  const char* name;
  int (*run)(unsigned long n);
} const kinds[] = {
    {"calls", calls},           {"branches", branches},
    {"recursion", recursion},   {"exceptions", exceptions},
    {"jumps", jumps},           {"signals", signals},
    {"forks", forks},           {"exec", executes},
    {"int3", own_breakpoint},   {"own-code", own_code},
    {"bad-return", bad_return}, {"far-return", far_return},
    {"forever", forever},       {"maps", maps},
    {"text", same_text},        {"mixed", mixed},
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned long n = argc > 2 ? strtoul(argv[2], nullptr, 10) : 1;
  for (const auto& kind : kinds) {
    if (argc > 1 && strcmp(argv[1], kind.name) == 0) return kind.run(n);
  }
  fprintf(stderr,
          "usage: probetest "
          "calls|branches|recursion|exceptions|jumps|signals|forks|exec|int3|own-code|bad-return|"
          "far-return|forever|"
          "maps|text|mixed [N]\n");
  return 2;
}
