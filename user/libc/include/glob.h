#ifndef _GLOB_H
#define _GLOB_H
#include <sys/cdefs.h>
#include <sys/types.h>

typedef struct {
  size_t gl_pathc; /* paths found */
  char** gl_pathv; /* gl_offs entries of NULL, then the paths, then NULL */
  size_t gl_offs;
} glob_t;

#define GLOB_APPEND 0x01
#define GLOB_DOOFFS 0x02
#define GLOB_ERR 0x04
#define GLOB_MARK 0x08
#define GLOB_NOCHECK 0x10
#define GLOB_NOESCAPE 0x20
#define GLOB_NOSORT 0x40
#define GLOB_BRACE 0x80    /* {a,b} as in csh */
#define GLOB_TILDE 0x100   /* ~ and ~user */
#define GLOB_NOMAGIC 0x200 /* a pattern without * ? [ is its own result */
#define GLOB_PERIOD 0x400  /* * and ? also match a leading period */
#define GLOB_ONLYDIR 0x800

#define GLOB_NOSPACE 1
#define GLOB_ABORTED 2
#define GLOB_NOMATCH 3

__BEGIN_DECLS
int glob(const char* __restrict, int, int (*)(const char*, int), glob_t* __restrict);
void globfree(glob_t*);
__END_DECLS
#endif
