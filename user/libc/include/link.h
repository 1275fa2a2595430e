/* dl_iterate_phdr, for code that unwinds stacks. Programs are static, so dl_iterate_phdr calls
 * `visit` once, for the program itself. */
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
  unsigned long long dlpi_adds, dlpi_subs; /* unused; user/libc/auxv.c says why */
};

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info* info, size_t size, void* data), void* data);

#ifdef __cplusplus
}
#endif
