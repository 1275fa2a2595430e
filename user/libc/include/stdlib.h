#ifndef _STELE_STDLIB_H
#define _STELE_STDLIB_H
#include_next <stdlib.h>

#if __MISC_VISIBLE || __XSI_VISIBLE
__BEGIN_DECLS
char* ecvt(double, int, int* __restrict, int* __restrict);
char* fcvt(double, int, int* __restrict, int* __restrict);
char* gcvt(double, int, char*);
int clearenv(void);
char* canonicalize_file_name(const char*);
void* valloc(size_t);
int posix_openpt(int);
int grantpt(int);
int unlockpt(int);
char* ptsname(int);
#if __GNU_VISIBLE
int ptsname_r(int, char*, size_t);
#endif
__END_DECLS
#endif
#endif
