/* Where the unwinder (the compiler's libgcc_eh) finds the tables of a program: exceptions go
 * through here. */
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* As the unwinder wants it: the object that holds an address. */
struct dl_find_object {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};

/* The program's own ELF header, from the linker: the first segment begins with it. */
extern const Elf64_Ehdr __ehdr_start;

/* Fills in `result` for the code at `address`; -1 if that is none of this program's. There is one
 * object, the program. */
int _dl_find_object(void* address, struct dl_find_object* result) {
  const Elf64_Phdr* headers = (const Elf64_Phdr*)((uintptr_t)&__ehdr_start + __ehdr_start.e_phoff);
  uintptr_t start = UINTPTR_MAX, end = 0, tables = 0;
  for (int i = 0; i < __ehdr_start.e_phnum; i++) {
    const Elf64_Phdr* header = &headers[i];
    if (header->p_type == PT_GNU_EH_FRAME) tables = header->p_vaddr;
    if (header->p_type != PT_LOAD) continue;
    if (header->p_vaddr < start) start = header->p_vaddr;
    if (header->p_vaddr + header->p_memsz > end) end = header->p_vaddr + header->p_memsz;
  }
  if (tables == 0 || (uintptr_t)address < start || (uintptr_t)address >= end) return -1;
  *result = (struct dl_find_object){
      .map_start = (void*)start, .map_end = (void*)end, .eh_frame = (void*)tables};
  return 0;
}
