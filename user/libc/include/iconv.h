#ifndef _ICONV_H
#define _ICONV_H
#include <sys/cdefs.h>
#include <sys/types.h>

typedef struct __iconv* iconv_t;

__BEGIN_DECLS
/* Converts between UTF-8, UTF-16, UTF-32, UCS-2, UCS-4, ISO-8859-1, ISO-8859-15, US-ASCII, WCHAR_T
 * and "" (the character set of the locale). LE or BE may follow the names UTF-16, UTF-32, UCS-2 and
 * UCS-4. "//IGNORE" after the name of the target leaves out invalid input and characters that the
 * target lacks. "//TRANSLIT" replaces characters that the target lacks by a question mark. */
iconv_t iconv_open(const char* to, const char* from);
size_t iconv(iconv_t, char** __restrict, size_t* __restrict, char** __restrict, size_t* __restrict);
int iconv_close(iconv_t);
__END_DECLS
#endif
