/* mprotect. */
#include "maptest.h"

static int writes(void* at) {
  *(volatile char*)at = 'w';
  return 0;
}

void test_protection(void) {
  char* at = map(8 * PAGE, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 8; i++) at[i * PAGE] = (char)('0' + i);
  CHECK(mprotect(at + 2 * PAGE, 2 * PAGE, PROT_READ) == 0);
  CHECK(signal_of_read(at + 2 * PAGE) == 0 && signal_of_write(at + 2 * PAGE) == FORBIDDEN &&
        signal_of_write(at + 4 * PAGE - 1) == FORBIDDEN && signal_of_write(at + 4 * PAGE) == 0 &&
        signal_of_write(at + 2 * PAGE - 1) == 0);
  CHECK(mprotect(at + 5 * PAGE, PAGE, PROT_NONE) == 0);
  CHECK(signal_of_read(at + 5 * PAGE) == FORBIDDEN && signal_of_write(at + 5 * PAGE) == FORBIDDEN);
  CHECK(FAILS(write(-1, at + 5 * PAGE, 1), EBADF));
  int fds[2];
  CHECK(pipe(fds) == 0 && FAILS(write(fds[1], at + 5 * PAGE, 1), EFAULT));
  CHECK(write(fds[1], "x", 1) == 1 && FAILS(read(fds[0], at + 2 * PAGE, 1), EFAULT));
  CHECK(exit_code_of(start_child_with(writes, at + 5 * PAGE)) == 128 + SIGSEGV &&
        in_child_with(writes, at) == 0);
  CHECK(mprotect(at, 8 * PAGE, READ_WRITE) == 0);
  int same = 1;
  for (int i = 0; i < 8; i++) same &= i == 4 || at[i * PAGE] == (char)('0' + i);
  CHECK(same && signal_of_write(at + 5 * PAGE) == 0 && signal_of_write(at + 2 * PAGE) == 0);

  /* mov $42, %eax; ret */
  memcpy(at, "\xb8\x2a\x00\x00\x00\xc3", 6);
  CHECK(signal_of_call(at) == FORBIDDEN);
  CHECK(mprotect(at, PAGE, PROT_READ | PROT_EXEC) == 0 && ((int (*)(void))(uintptr_t)at)() == 42);
  CHECK(signal_of_write(at) == FORBIDDEN && mprotect(at, PAGE, READ_WRITE) == 0);
  CHECK(signal_of_call(at) == FORBIDDEN);

  CHECK(FAILS(mprotect(at + 1, PAGE, PROT_READ), EINVAL));
  CHECK(FAILS(mprotect(at, PAGE, 8), EINVAL) && mprotect(at, 0, PROT_NONE) == 0);
  CHECK(munmap(at + 3 * PAGE, PAGE) == 0 && FAILS(mprotect(at, 8 * PAGE, PROT_NONE), ENOMEM));
  CHECK(signal_of_write(at) == 0);
  munmap(at, 8 * PAGE);
  CHECK(FAILS(mprotect(at, PAGE, PROT_READ), ENOMEM));
  CHECK(FAILS(mprotect((void*)-PAGE, 2 * PAGE, PROT_READ), ENOMEM));

  /* mprotect of the program's own constants and code. */
  static const char constant[] = "constant";
  char* page = (char*)((uintptr_t)constant & ~(uintptr_t)(PAGE - 1));
  CHECK(signal_of_write((char*)(uintptr_t)constant) == FORBIDDEN);
  CHECK(mprotect(page, PAGE, READ_WRITE) == 0 && signal_of_write((char*)(uintptr_t)constant) == 0);
  CHECK(*(volatile const char*)constant == 1 && strcmp(constant + 1, "onstant") == 0);
  mprotect(page, PAGE, PROT_READ);
  char* code = (char*)((uintptr_t)byte_at & ~(uintptr_t)(PAGE - 1));
  const char before = byte_at(77);
  CHECK(mprotect(code, 2 * PAGE, READ_WRITE | PROT_EXEC) == 0 && byte_at(77) == before);
  *(volatile char*)(uintptr_t)byte_at = *(volatile char*)(uintptr_t)byte_at;
  CHECK(byte_at(77) == before && mprotect(code, 2 * PAGE, PROT_READ | PROT_EXEC) == 0);
  CHECK(byte_at(77) == before);
}
