/* Programs that do forbidden things: each gets the right signal, and dies or handles it. */
#include <setjmp.h>

#include "proctest.h"

static int at(void* address) {
  return *(volatile int*)address;
}
static int put(void* address) {
  return *(volatile int*)address = 1;
}
static int jump(void* address) {
  ((void (*)(void))address)();
  return 0;
}
static int divide(void* argument) {
  __asm__ volatile("xorl %%edx, %%edx; movl $1, %%eax; xorl %%ecx, %%ecx; divl %%ecx" ::
                       : "rax", "rcx", "rdx");
  (void)argument;
  return 0;
}
static int undefined(void* argument) {
  (void)argument;
  __asm__ volatile("ud2");
  return 0;
}
static int halt(void* argument) {
  (void)argument;
  __asm__ volatile("hlt");
  return 0;
}
static int breakpoint(void* argument) {
  (void)argument;
  __asm__ volatile("int3");
  return 0;
}
static int long_breakpoint(void* argument) {
  (void)argument;
  /* `int $3` in its two-byte encoding. If the kernel took it for the one-byte int3 of a probe, the
   * kernel would resume the program at the second byte, where `addl %eax, %eax` begins. */
  __asm__ volatile(".byte 0xcd, 0x03, 0xc0");
  return 0;
}
static int asks_for_tables(void* argument) {
  char table[10];
  (void)argument;
  __asm__ volatile("sgdt %0" : "=m"(table));
  return 0;
}
static int old_system_call(void* argument) {
  (void)argument;
  __asm__ volatile("int $0x80");
  return 0;
}
static int port(void* argument) {
  (void)argument;
  __asm__ volatile("outb %%al, $0xf4" ::"a"(0x21));
  return 0;
}
static int no_stack(void* argument) {
  (void)argument;
  __asm__ volatile("xorl %esp, %esp; pushq %rax");
  return 0;
}
static int kernel_stack(void* argument) {
  (void)argument;
  __asm__ volatile("movq $0xffff800000100000, %rsp; movl $4, %eax; syscall; pushq %rax");
  return 0;
}
static void nothing(int signal) {
  (void)signal;
}
static int no_stack_for_handler(void* argument) {
  (void)argument;
  signal(SIGSEGV, nothing);
  __asm__ volatile("xorl %esp, %esp; pushq %rax");
  return 0;
}
static int made_up_sigreturn(void* argument) {
  /* The frame gives every register a garbage value: kernel segments, a kernel program counter, all
   * flags, a bad MXCSR. */
  static _Alignas(16) unsigned char frame[2048];
  memset(frame, (int)(long)argument, sizeof frame);
  __asm__ volatile("movq %0, %%rsp; movl %1, %%eax; syscall" ::"r"(frame + 512),
                   "i"(ABI_SYS_sigreturn));
  return 0;
}
static int sigreturn_from_nowhere(void* argument) {
  (void)argument;
  __asm__ volatile("movq $16, %%rsp; movl %0, %%eax; syscall" ::"i"(ABI_SYS_sigreturn));
  return 0;
}
static int all_flags(void* argument) {
  (void)argument;
  __asm__ volatile("pushfq; orq $0x47fd5, (%rsp); popfq; movl $4, %eax; syscall");
  return 0;
}

static jmp_buf recovered;
static void recover(int signal) {
  longjmp(recovered, signal);
}
static int handles(void* argument) {
  signal(SIGSEGV, recover);
  if (setjmp(recovered) == SIGSEGV) return 7;
  return put(argument);
}
static int blocks(void* argument) {
  uint64_t all = ~0ul;
  STELE_CALL(sigprocmask, 0, &all, 0);
  return put(argument);
}

static void dies(int (*function)(void*), void* argument, int signal) {
  int status = in_child_with(function, argument);
  EXPECT(WIFSIGNALED(status));
  if (signal) EXPECT(WTERMSIG(status) == signal);
}

void test_faults(void) {
  void* const bad[] = {NULL,
                       (void*)8,
                       (void*)0x10000000000,
                       (void*)0x7ffffffff000,
                       (void*)0x7fffffffffff,
                       (void*)0x800000000000,
                       (void*)0xffff800000000000,
                       (void*)0xffffffff80100000,
                       (void*)-1L};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    dies(at, bad[i], SIGSEGV);
    dies(put, bad[i], SIGSEGV);
    dies(jump, bad[i], SIGSEGV);
  }
  dies(put, (void*)&test_faults, SIGSEGV); /* text is not writable */
  static char data[16];
  dies(jump, data, SIGSEGV); /* data is not code */
  dies(divide, NULL, SIGFPE);
  dies(undefined, NULL, SIGILL);
  dies(halt, NULL, SIGSEGV);
  dies(breakpoint, NULL, SIGTRAP);
  dies(long_breakpoint, NULL, SIGTRAP);
  dies(asks_for_tables, NULL, SIGSEGV);
  dies(old_system_call, NULL, SIGSEGV);
  dies(port, NULL, SIGSEGV);
  dies(no_stack, NULL, SIGSEGV);
  dies(kernel_stack, NULL, SIGSEGV);
  dies(no_stack_for_handler, NULL, SIGSEGV);
  dies(sigreturn_from_nowhere, NULL, SIGSEGV);
  for (long byte = 0; byte < 256; byte += 17) dies(made_up_sigreturn, (void*)byte, 0);
  in_child_with(all_flags, NULL);
  dies(blocks, NULL, SIGSEGV);
  EXPECT(WEXITSTATUS(in_child_with(handles, NULL)) == 7);
  EXPECT(WEXITSTATUS(in_child_with(handles, (void*)0xffffffff80100000)) == 7);
}
