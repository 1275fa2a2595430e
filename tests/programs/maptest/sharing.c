/* Mappings that processes share. */
#include "maptest.h"

static int adds(void* at) {
  volatile int* number = at;
  for (int i = 0; i < 1000; i++) __atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static int sets(void* at) {
  memset(at, 's', 3 * PAGE);
  return 0;
}

static int unmaps_and_cuts(void* at) {
  strcpy((char*)at + PAGE, "the child's");
  return munmap(at, 3 * PAGE) == 0 ? 0 : 1;
}

void test_sharing(void) {
  char* at = map(3 * PAGE, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(at[0] == 0 && at[3 * PAGE - 1] == 0);
  pid_t children[4];
  for (int i = 0; i < 4; i++) children[i] = start_child_with(adds, at);
  for (int i = 0; i < 4; i++) status_of(children[i]);
  CHECK(*(int*)at == 4000);
  /* The child also writes to two pages to which no process has written before the fork. */
  CHECK(in_child_with(sets, at) == 0 && at[0] == 's' && at[2 * PAGE] == 's');
  CHECK(in_child_with(unmaps_and_cuts, at) == 0 && strcmp(at + PAGE, "the child's") == 0);
  CHECK(msync(at, 3 * PAGE, MS_SYNC) == 0);
  CHECK(mprotect(at, PAGE, PROT_READ) == 0 && signal_of_write(at) == FORBIDDEN);
  CHECK(munmap(at, 3 * PAGE) == 0);

  int fd = make_file("sharing", 3 * PAGE);
  char* shared = map(3 * PAGE, READ_WRITE, MAP_SHARED, fd, 0);
  char* own = map(3 * PAGE, READ_WRITE, MAP_PRIVATE, fd, 0);
  own[0] = 'o';
  CHECK(in_child_with(sets, own) == 0 && own[0] == 'o' && own[PAGE] == byte_at(PAGE));
  CHECK(in_child_with(sets, shared) == 0 && shared[0] == 's' && shared[2 * PAGE] == 's');
  CHECK(own[0] == 'o' && own[PAGE] == 's'); /* this process has not written to this page */
  CHECK(in_child_with(unmaps_and_cuts, shared) == 0 && strcmp(shared + PAGE, "the child's") == 0);
  close(fd);
  munmap(shared, 3 * PAGE);
  munmap(own, 3 * PAGE);
  unlink("sharing");
}
