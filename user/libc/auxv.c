/* The auxiliary vector and the program's own headers. */
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>

#include "start.h"

unsigned long getauxval(unsigned long type) {
  for (const unsigned long* pair = __stele_auxv; pair[0] != AT_NULL; pair += 2) {
    if (pair[0] == type) return pair[1];
  }
  errno = ENOENT;
  return 0;
}

/* The size passed to `visit` excludes dlpi_adds and dlpi_subs. If the size included them, libgcc's
 * unwinder would use a cache of ELF objects that all threads share, and would rely on this function
 * to lock the cache. The program is the only ELF object, so no cache is needed. */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info* info, size_t size, void* data), void* data) {
  if (__stele_headers == NULL) return 0;
  struct dl_phdr_info program = {.dlpi_name = "",
                                 .dlpi_phdr = __stele_headers,
                                 .dlpi_phnum = (Elf64_Half)__stele_header_count};
  return visit(&program, offsetof(struct dl_phdr_info, dlpi_adds), data);
}
