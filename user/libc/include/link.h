/* dl_iterate_phdr, for code that unwinds stacks: programs are static, so the program itself is the
 * only object that it visits. */
#pragma once

#include <elf.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ElfW(type) Elf64_##type

struct dl_phdr_info {
  Elf64_Addr dlpi_addr; /* offset added to the file's addresses: 0 */
  const char* dlpi_name;
  const Elf64_Phdr* dlpi_phdr;
  Elf64_Half dlpi_phnum;
  unsigned long long dlpi_adds, dlpi_subs; /* objects added and removed: 1 and 0 */
};

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info* info, size_t size, void* data), void* data);

#ifdef __cplusplus
}
#endif
