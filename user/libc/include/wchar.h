#ifndef _STELE_WCHAR_H
#define _STELE_WCHAR_H
#include_next <wchar.h>

/* POSIX declares the classes of <wctype.h> here too. */
#if __XSI_VISIBLE || __MISC_VISIBLE
#include <wctype.h>
#endif
#endif
