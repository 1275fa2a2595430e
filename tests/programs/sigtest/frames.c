/* Signal handlers: their arguments, the registers that they may change, and their stacks. */
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "abi/syscall.h"
#include "sigtest.h"

static siginfo_t last;
static volatile uintptr_t handler_frame;
static volatile int handled;
static sigjmp_buf place;

static void note(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  last = *info;
  handler_frame = (uintptr_t)__builtin_frame_address(0);
  handled++;
}

/* Continues after the faulting instruction, which has `skipped_bytes` bytes. */
static volatile int skipped_bytes;
static void skip(int signal, siginfo_t* info, void* context) {
  (void)signal;
  ucontext_t* interrupted = context;
  last = *info;
  handled++;
  interrupted->uc_mcontext.gregs[REG_RIP] += skipped_bytes;
  interrupted->uc_mcontext.gregs[REG_RAX] = 42;
}

static long store_at(const volatile void* address) {
  long result = 0;
  skipped_bytes = 3;
  __asm__ volatile("movb $1, (%%rdi)" : "+a"(result) : "D"(address) : "memory");
  return result;
}

static void faults(void) {
  handle(SIGSEGV, skip, 0);
  CHECK(store_at((void*)16) == 42 && last.si_code == SEGV_MAPERR && last.si_addr == (void*)16);
  CHECK(store_at((void*)(uintptr_t)store_at) == 42 && last.si_code == SEGV_ACCERR &&
        last.si_addr == (void*)(uintptr_t)store_at);
  handle(SIGFPE, skip, 0);
  skipped_bytes = 2;
  long result = 1;
  __asm__ volatile("xorl %%ecx, %%ecx; xorl %%edx, %%edx; divl %%ecx"
                   : "+a"(result)
                   :
                   : "ecx", "edx");
  CHECK(result == 42 && last.si_signo == SIGFPE && last.si_code == FPE_INTDIV);
  handle(SIGILL, skip, 0);
  result = 0;
  __asm__ volatile("ud2" : "+a"(result));
  CHECK(result == 42 && last.si_signo == SIGILL && last.si_code == ILL_ILLOPC);
  handle(SIGTRAP, note, 0);
  __asm__ volatile("int3");
  CHECK(last.si_signo == SIGTRAP && last.si_code == TRAP_BRKPT);
  signal(SIGSEGV, SIG_DFL);
  signal(SIGFPE, SIG_DFL);
  signal(SIGILL, SIG_DFL);
  signal(SIGTRAP, SIG_DFL);
}

/* The handler of the signal that registers() sends to its own process with an inline system call.
 * Memory below the stack pointer must stay unchanged. Registers must stay unchanged, except the
 * ones that this handler changes in the context. */
static void change_registers(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  ucontext_t* interrupted = context;
  uint64_t value = 0x1234;
  memcpy(interrupted->uc_mcontext.fpregs->xmm[5], &value, sizeof value);
  interrupted->uc_mcontext.gregs[REG_R12] = 0x5678;
  sigaddset(&interrupted->uc_sigmask, SIGHUP);
  handler_frame = (uintptr_t)__builtin_frame_address(0);
}

static void registers(void) {
  handle(SIGUSR1, change_registers, 0);
  uint64_t xmm5, xmm6, r12, r13, below;
  long call = ABI_SYS_kill;
  __asm__ volatile(
      "movq $111, -8(%%rsp); movq $112, -128(%%rsp)\n"
      "movq %[number], %%r12; movq %%r12, %%r13; movq %%r13, %%xmm5; movq %%r13, %%xmm6\n"
      "syscall\n"
      "movq %%xmm5, %[xmm5]; movq %%xmm6, %[xmm6]\n"
      "movq %%r12, %[r12]; movq %%r13, %[r13]\n"
      "movq -8(%%rsp), %[below]; addq -128(%%rsp), %[below]\n"
      : [xmm5] "=&r"(xmm5), [xmm6] "=&r"(xmm6), [r12] "=&r"(r12), [r13] "=&r"(r13),
        [below] "=&r"(below), "+a"(call)
      : [number] "i"(99), "D"(getpid()), "S"(SIGUSR1)
      : "rcx", "r11", "r12", "r13", "xmm5", "xmm6", "memory");
  CHECK(call == 0 && below == 223);
  CHECK(xmm5 == 0x1234 && xmm6 == 99 && r12 == 0x5678 && r13 == 99);
  CHECK(handler_frame % 16 == 0);
  sigset_t mask;
  CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGHUP));
  unblock(SIGHUP);
}

/* Moves the floating point state, with a change, to the end of a page. The pages of this file are
 * not present yet: they come in while the handler returns. */
enum { PAGE = 4096, BEFORE_END = 256, RED_ZONE = 128, ALIGNMENT = 64 };
static char* moved_state; /* two pages of a file that is mapped anew */
static int state_file;
static int second_page_present;
static void move_state(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  mcontext_t* machine = &((ucontext_t*)context)->uc_mcontext;
  char* state = (char*)machine->fpregs;
  const uint64_t value = 0x1234;
  memcpy(machine->fpregs->xmm[5], &value, sizeof value);
  const size_t size =
      ((uintptr_t)machine->gregs[REG_RSP] - RED_ZONE - (uintptr_t)state) & -(size_t)ALIGNMENT;
  CHECK(pwrite(state_file, state, size, PAGE - BEFORE_END) == (ssize_t)size);
  moved_state = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, state_file, 0);
  CHECK(moved_state != MAP_FAILED && *(volatile char*)moved_state == 0);
  if (!second_page_present) munmap(moved_state + PAGE, PAGE);
  machine->fpregs = (void*)(moved_state + PAGE - BEFORE_END);
  handled++;
}

static int return_from_moved_state(void) {
  handle(SIGUSR1, move_state, 0);
  uint64_t xmm5, xmm6;
  long call = ABI_SYS_kill;
  __asm__ volatile(
      "movq %[number], %%rax; movq %%rax, %%xmm5; movq %%rax, %%xmm6\n"
      "movl %[kill], %%eax; syscall\n"
      "movq %%xmm5, %[xmm5]; movq %%xmm6, %[xmm6]\n"
      : [xmm5] "=&r"(xmm5), [xmm6] "=&r"(xmm6), "+a"(call)
      : [number] "i"(99), [kill] "i"(ABI_SYS_kill), "D"(getpid()), "S"(SIGUSR1)
      : "rcx", "r11", "xmm5", "xmm6", "memory");
  CHECK(call == 0 && xmm5 == 0x1234 && xmm6 == 99);
  return 0;
}

static void moved_states(void) {
  state_file = open("/tmp/state", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(state_file >= 0 && unlink("/tmp/state") == 0 && ftruncate(state_file, 2 * PAGE) == 0);
  CHECK(WTERMSIG(in_child(return_from_moved_state)) == SIGSEGV);
  second_page_present = 1;
  handled = 0;
  return_from_moved_state();
  CHECK(handled == 1 && munmap(moved_state, 2 * PAGE) == 0 && close(state_file) == 0);
}

static char stack[16384] __attribute__((aligned(16)));
static int on_stack(uintptr_t address) {
  return address >= (uintptr_t)stack && address <= (uintptr_t)stack + sizeof stack;
}

static stack_t stack_inside;
static int change_inside;
static void look_at_stack(int signal, siginfo_t* info, void* context) {
  note(signal, info, context);
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(NULL, &stack_inside);
  change_inside = sigaltstack(&other, NULL) == -1 && errno == EPERM;
}

static void leave(int signal, siginfo_t* info, void* context) {
  note(signal, info, context);
  siglongjmp(place, 1);
}

static int deepen(volatile char* last_one) {
  if (last_one == NULL) return 0;
  volatile char here[4096];
  here[0] = *last_one;
  return deepen(here) + here[0];
}

static void raise_again(int signal, siginfo_t* info, void* context) {
  (void)info, (void)context;
  raise(signal);
}

/* Ends by SIGSEGV, since a handler's frame does not fit on the alternate stack. */
static int too_small(void) {
  stack_t small = {.ss_sp = stack, .ss_size = MINSIGSTKSZ};
  if (sigaltstack(&small, NULL) != 0) return 1;
  /* The handler raises its own signal, again and again. Each frame takes some of the stack. */
  handle(SIGUSR1, raise_again, SA_ONSTACK | SA_NODEFER);
  raise(SIGUSR1);
  return 0;
}

static void signal_stacks(void) {
  stack_t use = {.ss_sp = stack, .ss_size = sizeof stack}, old;
  CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
  use.ss_size = MINSIGSTKSZ - 1;
  CHECK(sigaltstack(&use, NULL) == -1 && errno == ENOMEM);
  use.ss_size = sizeof stack;
  use.ss_flags = 8;
  CHECK(sigaltstack(&use, NULL) == -1 && errno == EINVAL);
  use.ss_flags = 0;
  CHECK(sigaltstack(&use, NULL) == 0);
  handle(SIGUSR1, look_at_stack, 0);
  raise(SIGUSR1);
  CHECK(!on_stack(handler_frame) && stack_inside.ss_flags == 0 && !change_inside);
  handle(SIGUSR1, look_at_stack, SA_ONSTACK);
  raise(SIGUSR1);
  CHECK(on_stack(handler_frame) && stack_inside.ss_flags == SS_ONSTACK && change_inside);
  CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == 0 && old.ss_sp == stack);
  /* The purpose of an alternate stack: a handler can run after the usual stack has overflowed. */
  handle(SIGSEGV, leave, SA_ONSTACK);
  for (int i = 0; i < 2; i++) {
    volatile char first = 0;
    handled = 0;
    if (sigsetjmp(place, 1) == 0) deepen(&first);
    CHECK(handled == 1 && on_stack(handler_frame) && last.si_code == SEGV_MAPERR);
  }
  signal(SIGSEGV, SIG_DFL);
  use.ss_flags = SS_DISABLE;
  CHECK(sigaltstack(&use, NULL) == 0 && sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
  CHECK(WTERMSIG(in_child(too_small)) == SIGSEGV);
}

static volatile int depth, deepest, rounds;
static void again(int signal, siginfo_t* info, void* context) {
  (void)info, (void)context;
  depth++;
  if (depth > deepest) deepest = depth;
  if (rounds++ < 3) raise(signal);
  depth--;
}

static int blocked_abort(void) {
  signal(SIGABRT, SIG_IGN);
  block(SIGABRT);
  abort();
}
static int caught_abort(void) {
  handle(SIGABRT, note, 0);
  abort();
}
static int left_abort(void) {
  handle(SIGABRT, leave, 0);
  if (sigsetjmp(place, 1) == 0) abort();
  return 5;
}

void test_frames(void) {
  faults();
  registers();
  moved_states();
  signal_stacks();
  handle(SIGUSR1, again, SA_NODEFER);
  raise(SIGUSR1);
  CHECK(deepest == 4);
  deepest = rounds = 0;
  handle(SIGUSR1, again, 0);
  raise(SIGUSR1);
  CHECK(deepest == 1 && rounds == 4);
  signal(SIGUSR1, SIG_DFL);
  CHECK(WTERMSIG(in_child(blocked_abort)) == SIGABRT);
  CHECK(WTERMSIG(in_child(caught_abort)) == SIGABRT);
  CHECK(WEXITSTATUS(in_child(left_abort)) == 5);
}
