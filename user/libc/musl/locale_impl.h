#include <locale.h>
#include <reent.h>
#include <wchar.h>

/* For getopt: there are no translations. */
#define __lctrans_cur(message) (message)

/* For iconv, which converts UTF-8 in any locale. musl's iconv selects the locale C.UTF-8 for
 * mbrtowc and wctomb; here, they are newlib's functions for this locale. */
#define CURRENT_LOCALE \
  *(locale_t[1]) {     \
    0                  \
  }
#define UTF8_LOCALE 0
#define mbrtowc utf8_mbrtowc
#define wctomb(bytes, c) __utf8_wctomb(_REENT, bytes, c, &(mbstate_t){0})

int __utf8_mbtowc(struct _reent*, wchar_t*, const char*, size_t, mbstate_t*);
int __utf8_wctomb(struct _reent*, char*, wchar_t, mbstate_t*);

/* newlib's function accepts surrogates. */
static inline size_t utf8_mbrtowc(wchar_t* c, const char* bytes, size_t size, mbstate_t* state) {
  const int length = __utf8_mbtowc(_REENT, c, bytes, size, state);
  return length > 0 && *c >= 0xd800 && *c < 0xe000 ? (size_t)-1 : (size_t)length;
}
