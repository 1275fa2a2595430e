#ifndef _STELE_STDIO_H
#define _STELE_STDIO_H
#include_next <stdio.h>

#if __POSIX_VISIBLE >= 200809
__BEGIN_DECLS
ssize_t getdelim(char** __restrict, size_t* __restrict, int, FILE* __restrict);
ssize_t getline(char** __restrict, size_t* __restrict, FILE* __restrict);
__END_DECLS
#endif
#endif
