#ifndef _STELE_SEARCH_H
#define _STELE_SEARCH_H
#include_next <search.h>

__BEGIN_DECLS
void insque(void*, void*);
void remque(void*);
void* lfind(const void*, const void*, size_t*, size_t, int (*)(const void*, const void*));
void* lsearch(const void*, void*, size_t*, size_t, int (*)(const void*, const void*));
__END_DECLS
#endif
