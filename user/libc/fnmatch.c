/* Patterns of file names: * ? [set] and \, as in POSIX 2.13, with the flags of GNU and BSD.
 *
 * Characters are those of the locale; a byte that begins no character matches itself. A star first
 * matches the empty string. On a mismatch, the search goes back to the last star and lets it match
 * one more character. With FNM_PATHNAME, no star matches a slash, so the search never goes back to
 * a star of an earlier component of the path.
 */
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* Returns the character at `text`, and stores its size in bytes in `length`. At the end of the
 * text, the character and its size are 0. */
static wint_t character(const char* text, int* length) {
  wchar_t wide;
  unsigned char first = (unsigned char)*text;
  *length = first != '\0';
  if (first < 0x80) return first;
  mbstate_t state;
  memset(&state, 0, sizeof state);
  size_t used = mbrtowc(&wide, text, MB_LEN_MAX, &state);
  if (used == 0 || used > MB_LEN_MAX) return 0x110000u + first; /* byte begins no character */
  *length = (int)used;
  return (wint_t)wide;
}

static wint_t folded(wint_t c, int flags) {
  return flags & FNM_CASEFOLD ? towlower(c) : c;
}

/* `at` points to "[:", "[." or "[=" within a set. Returns the matching ":]", ".]" or "=]"; NULL if
 * there is none. */
static const char* class_end(const char* at) {
  const char closing[] = {at[1], ']', '\0'};
  return strstr(at + 2, closing);
}

static int in_class(const char* name, size_t length, wint_t c, int flags) {
  char copy[32];
  if (length >= sizeof copy) return 0;
  memcpy(copy, name, length);
  copy[length] = '\0';
  wctype_t type = wctype(copy);
  if (type == (wctype_t)0) return 0;
  if (iswctype(c, type)) return 1;
  return (flags & FNM_CASEFOLD) && (iswctype(towlower(c), type) || iswctype(towupper(c), type));
}

/* Reads one end of a range, or a single character, and moves `at` past it. */
static wint_t set_member(const char** at, int flags) {
  int length;
  if ((*at)[0] == '[' && ((*at)[1] == '.' || (*at)[1] == '=')) {
    const char* end = class_end(*at);
    if (end != NULL) {
      wint_t c = character(*at + 2, &length);
      *at = end + 2;
      return c;
    }
  }
  if ((*at)[0] == '\\' && !(flags & FNM_NOESCAPE) && (*at)[1] != '\0') ++*at;
  wint_t c = character(*at, &length);
  *at += length;
  return c;
}

/* Tests whether `c` is in the set; `at` points just after its "[". Returns 1 or 0 and sets `end`
 * just after the set. Returns -1 if the set has no "]"; with FNM_PATHNAME, a slash also ends the
 * search for "]". After -1, the caller treats the "[" as an ordinary character. */
static int in_set(const char* at, wint_t c, int flags, const char** end) {
  int negated = *at == '!' || *at == '^', found = 0;
  if (negated) at++;
  const char* first = at;
  wint_t other = c;
  if (flags & FNM_CASEFOLD) c = towlower(c), other = towupper(c);
  while (*at != ']' || at == first) {
    if (*at == '\0' || (*at == '/' && (flags & FNM_PATHNAME))) return -1;
    if (at[0] == '[' && at[1] == ':') {
      const char* closing = class_end(at);
      if (closing != NULL) {
        found |= in_class(at + 2, (size_t)(closing - at - 2), c, flags);
        at = closing + 2;
        continue;
      }
    }
    wint_t low = set_member(&at, flags), high = low;
    if (at[0] == '-' && at[1] != ']' && at[1] != '\0') {
      at++;
      high = set_member(&at, flags);
    }
    if ((low <= c && c <= high) || (low <= other && other <= high)) found = 1;
    if (low == high && folded(low, flags) == c) found = 1;
  }
  *end = at + 1;
  return found != negated;
}

/* Returns 1 if `text` begins with a period that only a period in the pattern matches. */
static int is_hidden(const char* text, const char* start, int flags) {
  if (*text != '.' || !(flags & FNM_PERIOD)) return 0;
  return text == start || ((flags & FNM_PATHNAME) && text[-1] == '/');
}

/* Compares the first element of the pattern, which is not a star, with the character at `text`. If
 * they match, returns the rest of the pattern; otherwise NULL. */
static const char* element(const char* pattern, const char* text, const char* start, int flags) {
  int length;
  wint_t c = character(text, &length);
  if (*pattern == '?' || *pattern == '[') {
    if ((c == '/' && (flags & FNM_PATHNAME)) || is_hidden(text, start, flags)) return NULL;
    if (*pattern == '?') return pattern + 1;
    const char* end;
    int found = in_set(pattern + 1, c, flags, &end);
    if (found >= 0) return found ? end : NULL;
  } else if (*pattern == '\\' && !(flags & FNM_NOESCAPE)) {
    pattern++;
    if (*pattern == '\0') return NULL;
  }
  wint_t wanted = character(pattern, &length);
  return folded(wanted, flags) == folded(c, flags) ? pattern + length : NULL;
}

int fnmatch(const char* pattern, const char* text, int flags) {
  const char* start = text;
  /* `star` is the pattern after the last star, NULL if there is no star to go back to; `taken` is
   * the text after the characters that this star matches. */
  const char *star = NULL, *taken = NULL;
  for (;;) {
    if (*pattern == '*') {
      if (is_hidden(text, start, flags)) return FNM_NOMATCH;
      star = ++pattern;
      taken = text;
      continue;
    }
    if (*text == '\0' && *pattern == '\0') return 0;
    if (*pattern == '\0' && *text == '/' && (flags & FNM_LEADING_DIR)) return 0;
    const char* next = NULL;
    if (*text != '\0' && *pattern != '\0') next = element(pattern, text, start, flags);
    if (next != NULL) {
      if (*text == '/' && (flags & FNM_PATHNAME)) star = NULL;
      int length;
      character(text, &length);
      text += length;
      pattern = next;
      continue;
    }
    if (star == NULL || *taken == '\0') return FNM_NOMATCH;
    if (*taken == '/' && (flags & FNM_PATHNAME)) return FNM_NOMATCH;
    int length;
    character(taken, &length);
    taken += length;
    text = taken;
    pattern = star;
  }
}
