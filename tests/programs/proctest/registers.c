/* Registers that the kernel does not use itself: SSE, AVX, MXCSR and FS base. Their values must
 * survive other programs, signal handlers and fork. */
#include <ucontext.h>

#include "proctest.h"

enum { REGISTERS = 16, WIDTH = 32, SPINNERS = 12, ROUNDS = 300 };

struct registers {
  uint8_t wide[REGISTERS][WIDTH]; /* ymm0 to ymm15 */
  uint32_t mxcsr;
};

/* Loads the registers from `in`, makes a system call `rounds` times, and stores the registers to
 * `out`. `avx`: 1, or 0 to use only the lower half of each register. */
void call_with_registers(const struct registers* in, struct registers* out, long rounds, long avx,
                         long number, const long arguments[2]);
__asm__(
    "        .text\n"
    "        .macro each_register instruction, memory, prefix, first\n"
    "        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
    "        .if \\first\n"
    "        \\instruction \\n*32(\\memory), %\\prefix\\n\n"
    "        .else\n"
    "        \\instruction %\\prefix\\n, \\n*32(\\memory)\n"
    "        .endif\n"
    "        .endr\n"
    "        .endm\n"
    "        .globl call_with_registers\n"
    "        .type call_with_registers, @function\n"
    "call_with_registers:\n"
    "        pushq %rbp\n"
    "        pushq %rbx\n"
    "        pushq %r12\n"
    "        pushq %r13\n"
    "        pushq %r14\n"
    "        pushq %r15\n"
    "        subq $8, %rsp\n"
    "        stmxcsr (%rsp)\n"
    "        movq %rdi, %r12\n"
    "        movq %rsi, %r13\n"
    "        movq %rdx, %r14\n"
    "        movq %rcx, %r15\n"
    "        movq %r8, %rbx\n"
    "        movq %r9, %rbp\n"
    "        ldmxcsr 512(%r12)\n"
    "        testq %r15, %r15\n"
    "        jz 1f\n"
    "        each_register vmovups, %r12, ymm, 1\n"
    "        jmp 2f\n"
    "1:      each_register movups, %r12, xmm, 1\n"
    "2:      movq %rbx, %rax\n"
    "        movq (%rbp), %rdi\n"
    "        movq 8(%rbp), %rsi\n"
    "        syscall\n"
    "        decq %r14\n"
    "        jnz 2b\n"
    "        testq %r15, %r15\n"
    "        jz 1f\n"
    "        each_register vmovups, %r13, ymm, 0\n"
    "        vzeroupper\n"
    "        jmp 2f\n"
    "1:      each_register movups, %r13, xmm, 0\n"
    "2:      stmxcsr 512(%r13)\n"
    "        ldmxcsr (%rsp)\n"
    "        addq $8, %rsp\n"
    "        popq %r15\n"
    "        popq %r14\n"
    "        popq %r13\n"
    "        popq %r12\n"
    "        popq %rbx\n"
    "        popq %rbp\n"
    "        ret\n"
    "        .size call_with_registers, . - call_with_registers\n");

static int has_avx(void) {
  return __builtin_cpu_supports("avx") != 0;
}

/* Fills each register with a different value, which depends on `seed`. `seed` also selects the
 * rounding mode and flush-to-zero in MXCSR. */
static void fill(struct registers* registers, int seed) {
  memset(registers, 0, sizeof *registers);
  for (int i = 0; i < REGISTERS; i++) {
    for (int j = 0; j < (has_avx() ? WIDTH : WIDTH / 2); j++)
      registers->wide[i][j] = (uint8_t)(seed * 41 + i * 7 + j);
  }
  registers->mxcsr = 0x1f80 | (uint32_t)(seed & 3) << 13 | (uint32_t)(seed & 1) << 15;
}

/* True if `rounds` calls leave the registers unchanged. */
static int are_kept(int seed, long rounds, long number, long a, long b) {
  struct registers in, out;
  const long arguments[2] = {a, b};
  fill(&in, seed);
  memset(&out, 0, sizeof out);
  call_with_registers(&in, &out, rounds, has_avx(), number, arguments);
  return memcmp(&in, &out, sizeof in) == 0;
}

/* A pipe on which each spinning process waits until all of them exist. The wait is a read, which
 * returns when no process has the writing end open any more. */
static int begin[2];

static int spin(void* seed) {
  char nothing;
  close(begin[1]);
  EXPECT(read(begin[0], &nothing, 1) == 0);
  for (int i = 0; i < 5; i++) EXPECT(are_kept((int)(long)seed + i, ROUNDS, ABI_SYS_yield, 0, 0));
  return 0;
}

static long thread_pointer(void) {
  return (long)__builtin_thread_pointer();
}

static __thread int of_thread = 77;
static volatile int handled;

/* A signal handler that overwrites all registers. */
static void clobber(int signal) {
  (void)signal;
  handled++;
  EXPECT(of_thread == 78 && thread_pointer() == *(long*)thread_pointer());
  EXPECT(are_kept(handled, 1, ABI_SYS_getpid, 0, 0));
}

/* Offsets and sizes, in bytes, in a signal frame. The kernel stores the floating point state of the
 * frame below the red zone, aligned to 64 bytes. */
enum { LEGACY = 512, MXCSR = 24, RED_ZONE = 128, ALIGNMENT = 64 };
static int pattern;

static void spoil(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  const mcontext_t* machine = &((const ucontext_t*)context)->uc_mcontext;
  uint8_t* state = (uint8_t*)machine->fpregs;
  const size_t size =
      ((uintptr_t)machine->gregs[REG_RSP] - RED_ZONE - (uintptr_t)state) & -(size_t)ALIGNMENT;
  handled++;
  switch (pattern) {
    case 0: /* sets all bits, also of missing components and reserved fields */
      memset(state, 0xff, size);
      break;
    case 1:
      memset(state + MXCSR, 0xff, 4);
      break;
    default: /* flips a bit of the header that XSAVE wrote */
      if (size > LEGACY)
        state[LEGACY + (pattern - 2) / 8 % 64] ^= (uint8_t)(1 << (pattern - 2) % 8);
      break;
  }
}

static int returns_with_garbage(void* argument) {
  pattern = (int)(long)argument;
  const struct sigaction action = {.sa_sigaction = spoil, .sa_flags = SA_SIGINFO};
  EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
  EXPECT(kill(getpid(), SIGUSR1) == 0);
  EXPECT(handled == 1);
  return 0;
}

static int forked(void* pointer) {
  EXPECT(thread_pointer() == (long)pointer && of_thread == 78);
  of_thread = 80;
  return 5;
}

void test_user_registers(void) {
  pid_t children[SPINNERS];
  EXPECT(pipe(begin) == 0);
  for (long i = 0; i < SPINNERS; i++) children[i] = start_child_with(spin, (void*)(i * 3));
  close(begin[0]);
  close(begin[1]);
  for (int i = 0; i < SPINNERS; i++) EXPECT(status_of(children[i]) == 0);

  /* Thread-local storage keeps its values. */
  EXPECT(of_thread == 77);
  of_thread = 78;
  EXPECT(thread_pointer() == *(long*)thread_pointer());
  EXPECT(in_child_with(forked, (void*)thread_pointer()) == 5 << 8 && of_thread == 78);
  const long bad[] = {(long)0x8000000000000000, (long)0xffffffff80100000, 0x800000000000,
                      0x7ffffffff000, -1};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    EXPECT(STELE_CALL(set_tls, bad[i]) == -EINVAL);

  /* Signal handlers. */
  signal(SIGUSR1, clobber);
  handled = 0;
  EXPECT(are_kept(100, 3, ABI_SYS_kill, getpid(), SIGUSR1));
  EXPECT(handled == 3);
  handled = 0;
  for (long i = 0; i < 2 + 24 * 8; i++) EXPECT(in_child_with(returns_with_garbage, (void*)i) == 0);
}
