/* The program's own segments, for what walks stacks or tables: there is one object, the program. */
#pragma once

#include <elf.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ElfW(type) Elf64_##type

struct dl_phdr_info {
  Elf64_Addr dlpi_addr; /* what to add to the file's addresses: 0 */
  const char* dlpi_name;
  const Elf64_Phdr* dlpi_phdr;
  Elf64_Half dlpi_phnum;
  unsigned long long dlpi_adds, dlpi_subs; /* objects that came and went: 1 and 0 */
};

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info* info, size_t size, void* data), void* data);

#ifdef __cplusplus
}
#endif
