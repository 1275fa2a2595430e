/* The auxiliary vector, in which the kernel describes itself and the program at start. */
#pragma once

#include <abi/start.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AT_NULL ABI_AT_NULL
#define AT_PHDR ABI_AT_PHDR
#define AT_PHENT ABI_AT_PHENT
#define AT_PHNUM ABI_AT_PHNUM
#define AT_PAGESZ ABI_AT_PAGESZ
#define AT_ENTRY ABI_AT_ENTRY
#define AT_UID ABI_AT_UID
#define AT_EUID ABI_AT_EUID
#define AT_GID ABI_AT_GID
#define AT_EGID ABI_AT_EGID
#define AT_HWCAP ABI_AT_HWCAP
#define AT_CLKTCK ABI_AT_CLKTCK
#define AT_SECURE ABI_AT_SECURE
#define AT_RANDOM ABI_AT_RANDOM
#define AT_EXECFN ABI_AT_EXECFN
#define AT_MINSIGSTKSZ ABI_AT_MINSIGSTKSZ

/* Returns the value of the entry of this type; 0 with errno ENOENT if there is none. */
unsigned long getauxval(unsigned long type);

#ifdef __cplusplus
}
#endif
