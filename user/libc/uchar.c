/* <uchar.h>: characters as UTF-16 and UTF-32. wchar_t is UTF-32. Between two calls, one half of a
 * surrogate pair is stored in the mbstate_t, in the field that newlib uses for the bytes of an
 * incomplete character. musl's functions rely on what musl's mbrtowc stores in an mbstate_t.
 */
#include <errno.h>
#include <string.h>
#include <uchar.h>

size_t mbrtoc32(char32_t* to, const char* from, size_t size, mbstate_t* state) {
  static mbstate_t own;
  if (state == NULL) state = &own;
  wchar_t wide;
  size_t used = from == NULL ? mbrtowc(&wide, "", 1, state) : mbrtowc(&wide, from, size, state);
  if (used < (size_t)-3 && from != NULL && to != NULL) *to = (char32_t)wide;
  return used;
}

size_t c32rtomb(char* to, char32_t c, mbstate_t* state) {
  static mbstate_t own;
  if (state == NULL) state = &own;
  return to == NULL ? wcrtomb(NULL, L'\0', state) : wcrtomb(to, (wchar_t)c, state);
}

/* If mbstate_t.__count is HALF, __value holds one half of a pair. newlib never uses this count. */
enum { HALF = -16 };

size_t mbrtoc16(char16_t* to, const char* from, size_t size, mbstate_t* state) {
  static mbstate_t own;
  if (state == NULL) state = &own;
  if (state->__count == HALF) {
    if (to != NULL) *to = (char16_t)state->__value.__wch;
    memset(state, 0, sizeof *state);
    return (size_t)-3; /* consumes no further byte */
  }
  char32_t c = 0;
  size_t used = mbrtoc32(&c, from, size, state);
  if (used >= (size_t)-3 || from == NULL) return used;
  if (c >= 0x10000) {
    state->__count = HALF;
    state->__value.__wch = (wint_t)(0xdc00 + (c & 0x3ff));
    c = 0xd800 + ((c - 0x10000) >> 10);
  }
  if (to != NULL) *to = (char16_t)c;
  return used;
}

size_t c16rtomb(char* to, char16_t c, mbstate_t* state) {
  static mbstate_t own;
  if (state == NULL) state = &own;
  int low = c >= 0xdc00 && c < 0xe000, high = c >= 0xd800 && c < 0xdc00;
  if (state->__count == HALF) {
    char32_t first = (char32_t)state->__value.__wch;
    memset(state, 0, sizeof *state);
    if (to == NULL) return 1;
    if (low) return c32rtomb(to, 0x10000 + ((first - 0xd800) << 10) + (c - 0xdc00u), state);
  } else if (!low && !high) {
    return c32rtomb(to, c, state);
  } else if (high && to != NULL) {
    state->__count = HALF;
    state->__value.__wch = c;
    return 0; /* the second half writes the whole character */
  }
  errno = EILSEQ;
  return (size_t)-1;
}
