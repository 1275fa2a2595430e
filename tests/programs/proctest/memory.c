/* Stack, heap, anonymous memory. */
#include "proctest.h"

#define PAGE 4096

static char* map(long address, long size, int protection, int flags) {
  return (char*)STELE_CALL(mmap, address, size, protection,
                           flags | ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS, -1, 0);
}
#define READ_WRITE (ABI_PROT_READ | ABI_PROT_WRITE)

static int touch(void* address) {
  *(volatile char*)address = 1;
  return 0;
}
static int look(void* address) {
  return *(volatile char*)address;
}

static __attribute__((noinline)) long deeper(long bytes) {
  volatile char block[1024];
  block[0] = (char)bytes;
  return bytes <= 0 ? block[0] : deeper(bytes - 1024) + block[0];
}
static int uses_stack(void* bytes) {
  deeper((long)bytes);
  return 0;
}

static int killed_by_segv(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static int takes_all_memory(void* argument) {
  (void)argument;
  char* memory = map(0, 1L << 36, READ_WRITE, 0);
  for (long i = 0; i < 1L << 36; i += PAGE) memory[i] = 1;
  return 0;
}

void test_memory(void) {
  EXPECT(in_child_with(uses_stack, (void*)(4L << 20)) == 0);
  EXPECT(killed_by_segv(in_child_with(uses_stack, (void*)(16L << 20))));

  char* old = (char*)STELE_CALL(brk, 0);
  EXPECT((char*)STELE_CALL(brk, old + 10 * PAGE) == old + 10 * PAGE);
  memset(old, 'x', 10 * PAGE);
  EXPECT((char*)STELE_CALL(brk, old) == old);
  char* next_page = (char*)(((long)old + PAGE - 1) & -PAGE);
  EXPECT(killed_by_segv(in_child_with(touch, next_page)));
  EXPECT((char*)STELE_CALL(brk, old + 10 * PAGE) == old + 10 * PAGE);
  EXPECT(next_page[0] == 0 && next_page[8 * PAGE] == 0);
  STELE_CALL(brk, old);
  EXPECT((char*)STELE_CALL(brk, 1) == old);
  EXPECT((char*)STELE_CALL(brk, -1L) == old);
  EXPECT((char*)STELE_CALL(brk, 0x7ffffffff000) == old);

  char* a = map(0, 8 * PAGE, READ_WRITE, 0);
  EXPECT((long)a > 0 && (long)a % PAGE == 0 && a[0] == 0);
  memset(a, 'a', 8 * PAGE);
  EXPECT(STELE_CALL(munmap, a + 2 * PAGE, 2 * PAGE) == 0); /* makes a hole */
  EXPECT(a[2 * PAGE - 1] == 'a' && a[4 * PAGE] == 'a');
  EXPECT(killed_by_segv(in_child_with(touch, a + 2 * PAGE)) &&
         killed_by_segv(in_child_with(touch, a + 4 * PAGE - 1)));
  EXPECT(map((long)a + 3 * PAGE, 2 * PAGE, READ_WRITE, ABI_MAP_FIXED) == a + 3 * PAGE);
  EXPECT(a[3 * PAGE] == 0 && a[4 * PAGE] == 0 && a[5 * PAGE] == 'a');
  EXPECT(STELE_CALL(munmap, a, 8 * PAGE) == 0);
  EXPECT(killed_by_segv(in_child_with(look, a)) &&
         killed_by_segv(in_child_with(look, a + 5 * PAGE)));
  EXPECT(STELE_CALL(munmap, a, 8 * PAGE) == 0); /* an unmapped range is no error */

  char* read_only = map(0, PAGE, ABI_PROT_READ, 0);
  EXPECT(in_child_with(look, read_only) == 0 && killed_by_segv(in_child_with(touch, read_only)));
  char* none = map(0, PAGE, 0, 0);
  EXPECT(killed_by_segv(in_child_with(look, none)));
  STELE_CALL(munmap, read_only, PAGE);
  STELE_CALL(munmap, none, PAGE);

  EXPECT((long)map(0, 0, READ_WRITE, 0) == -EINVAL);
  EXPECT((long)map(0, -1L, READ_WRITE, 0) == -ENOMEM);
  EXPECT((long)map(0, 1L << 50, READ_WRITE, 0) == -ENOMEM);
  EXPECT((long)map(0xffff800000000000, PAGE, READ_WRITE, ABI_MAP_FIXED) == -EINVAL);
  EXPECT((long)map(0, PAGE, READ_WRITE, ABI_MAP_FIXED) == -EINVAL);
  EXPECT((long)map(123, PAGE, READ_WRITE, ABI_MAP_FIXED) == -EINVAL);
  EXPECT((long)map(0, PAGE, 99, 0) == -EINVAL);
  EXPECT(STELE_CALL(mmap, 0, PAGE, READ_WRITE, ABI_MAP_PRIVATE, -1, 0) == -EBADF);
  EXPECT(STELE_CALL(munmap, 123, PAGE) == -EINVAL);
  EXPECT(STELE_CALL(munmap, 0xffff800000000000, PAGE) == -EINVAL);

  /* The kernel kills a process that uses up all memory. The other processes continue. */
  int status = in_child_with(takes_all_memory, NULL);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
