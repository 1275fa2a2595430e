/* The state in which a program starts. C, C++ and assembly; shared with user programs.
 *
 * The stack holds, from rsp upwards: argc, the arguments' addresses, NULL, the environment's
 * addresses, NULL, and the auxiliary vector. The vector consists of pairs of a type and a value;
 * the last pair has the type ABI_AT_NULL (System V ABI, AMD64 supplement, section 3.4.1). The
 * numbers of the types are the same as on other systems. Registers are zero except rsp and rax. */
#pragma once

/* The value of rax that identifies Stele. Another kernel that can start the same file sets rax to
 * 0. */
#define ABI_START_RAX 0x656c657473 /* "stele" */

#define ABI_AT_NULL 0
#define ABI_AT_PHDR 3 /* the program headers in memory; 0 if no segment holds them */
#define ABI_AT_PHENT 4
#define ABI_AT_PHNUM 5
#define ABI_AT_PAGESZ 6
#define ABI_AT_ENTRY 9
#define ABI_AT_UID 11
#define ABI_AT_EUID 12
#define ABI_AT_GID 13
#define ABI_AT_EGID 14
#define ABI_AT_HWCAP 16       /* edx of CPUID 1 */
#define ABI_AT_CLKTCK 17      /* ticks a second of times() */
#define ABI_AT_SECURE 23      /* 1 if the program has rights that its user may not have */
#define ABI_AT_RANDOM 25      /* address of 16 random bytes */
#define ABI_AT_EXECFN 31      /* address of the path that was given to execve */
#define ABI_AT_MINSIGSTKSZ 51 /* largest size of a signal handler's frame, in bytes */
