/* For a program that must keep running when memory is full. The program calls touch_all_pages()
 * early, so that its own pages need no memory later. This header is for C and C++. */
#pragma once

#include <elf.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
extern const Elf64_Ehdr __ehdr_start;
#ifdef __cplusplus
}
#endif

/* Brings all pages of the calling program into memory, and makes private copies of the writable
 * pages. */
static inline void touch_all_pages(void) {
  const uintptr_t page = 4096;
  const Elf64_Phdr* const headers =
      (const Elf64_Phdr*)((uintptr_t)&__ehdr_start + __ehdr_start.e_phoff);
  for (int i = 0; i < __ehdr_start.e_phnum; i++) {
    if (headers[i].p_type != PT_LOAD) continue;
    const uintptr_t end = headers[i].p_vaddr + headers[i].p_memsz;
    for (uintptr_t at = headers[i].p_vaddr; at < end; at = (at | (page - 1)) + 1) {
      volatile char* const byte = (volatile char*)at;
      if (headers[i].p_flags & PF_W)
        *byte = *byte;
      else
        (void)*byte;
    }
  }
}
