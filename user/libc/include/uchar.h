#ifndef _UCHAR_H
#define _UCHAR_H
#include <stdint.h>
#include <wchar.h>

#define __STDC_UTF_16__ 1
#define __STDC_UTF_32__ 1

#ifndef __cplusplus
typedef __CHAR16_TYPE__ char16_t;
typedef __CHAR32_TYPE__ char32_t;
#endif

__BEGIN_DECLS
size_t mbrtoc16(char16_t* __restrict, const char* __restrict, size_t, mbstate_t* __restrict);
size_t c16rtomb(char* __restrict, char16_t, mbstate_t* __restrict);
size_t mbrtoc32(char32_t* __restrict, const char* __restrict, size_t, mbstate_t* __restrict);
size_t c32rtomb(char* __restrict, char32_t, mbstate_t* __restrict);
__END_DECLS
#endif
