/* Conversion between character sets: each character is decoded to its Unicode number and encoded
 * again. The sets are Unicode's encodings and subsets of its first 256 characters; iconv_open fails
 * with EINVAL for other sets, which would need tables.
 *
 * Input in "UTF-16" or "UTF-32" (without LE or BE) may begin with a byte order mark. Input without
 * a mark is little-endian. Output in "UTF-16" or "UTF-32" begins with a mark.
 */
#include <ctype.h>
#include <errno.h>
#include <iconv.h>
#include <langinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum set { SET_ASCII, SET_LATIN1, SET_LATIN9, SET_UTF8, SET_16, SET_32 };

struct coding {
  enum set set;
  int big;        /* big-endian */
  int marked;     /* with byte order mark: optional in input, always written to output */
  int surrogates; /* the 16-bit encoding has surrogate pairs: UTF-16 has them, UCS-2 does not */
};

struct __iconv {
  struct coding from, to;
  int start;    /* nothing is read yet */
  int first;    /* nothing is written yet */
  int from_big; /* the input is big-endian, by its mark if it has one, or by from.big */
  /* Characters that the target lacks are left out (`ignore`) or replaced by a question mark
   * (`substitute`). `ignore` also leaves out invalid input. */
  int ignore, substitute;
};

static const struct {
  const char* name; /* name without dashes and underscores, in small letters */
  struct coding coding;
} names[] = {
    {"ascii", {.set = SET_ASCII}},
    {"usascii", {.set = SET_ASCII}},
    {"ansix3.41968", {.set = SET_ASCII}},
    {"646", {.set = SET_ASCII}},
    {"c", {.set = SET_ASCII}},
    {"iso88591", {.set = SET_LATIN1}},
    {"latin1", {.set = SET_LATIN1}},
    {"l1", {.set = SET_LATIN1}},
    {"iso885915", {.set = SET_LATIN9}},
    {"latin9", {.set = SET_LATIN9}},
    {"utf8", {.set = SET_UTF8}},
    {"utf16", {.set = SET_16, .marked = 1, .surrogates = 1}},
    {"utf16le", {.set = SET_16, .surrogates = 1}},
    {"utf16be", {.set = SET_16, .surrogates = 1, .big = 1}},
    {"ucs2", {.set = SET_16}},
    {"ucs2le", {.set = SET_16}},
    {"ucs2be", {.set = SET_16, .big = 1}},
    {"iso10646ucs2", {.set = SET_16}},
    {"utf32", {.set = SET_32, .marked = 1}},
    {"utf32le", {.set = SET_32}},
    {"utf32be", {.set = SET_32, .big = 1}},
    {"ucs4", {.set = SET_32, .big = 1}},
    {"ucs4be", {.set = SET_32, .big = 1}},
    {"ucs4le", {.set = SET_32}},
    {"iso10646ucs4", {.set = SET_32, .big = 1}},
    {"wchart", {.set = SET_32}},
};

/* Finds a set by name, and sets `options` to the part of the name from "//" on. Returns 0 if there
 * is no such set. */
static int find(const char* name, struct coding* coding, const char** options) {
  char plain[32];
  size_t length = 0;
  *options = strstr(name, "//");
  if (*options == NULL) *options = name + strlen(name);
  if (*options == name) {
    const char* nothing;
    return *nl_langinfo(CODESET) != '\0' && find(nl_langinfo(CODESET), coding, &nothing);
  }
  for (const char* at = name; at < *options; at++) {
    if (*at == '-' || *at == '_') continue;
    if (length + 1 >= sizeof plain) return 0;
    plain[length++] = (char)tolower((unsigned char)*at);
  }
  plain[length] = '\0';
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i].name, plain) != 0) continue;
    *coding = names[i].coding;
    return 1;
  }
  return 0;
}

iconv_t iconv_open(const char* to, const char* from) {
  struct __iconv found = {.start = 1, .first = 1};
  const char *options, *from_options;
  if (!find(to, &found.to, &options) || !find(from, &found.from, &from_options)) {
    errno = EINVAL;
    return (iconv_t)-1;
  }
  found.ignore = strcasestr(options, "//IGNORE") != NULL;
  found.substitute = strcasestr(options, "//TRANSLIT") != NULL;
  found.from_big = found.from.big;
  iconv_t converter = malloc(sizeof *converter);
  if (converter == NULL) return (iconv_t)-1;
  *converter = found;
  return converter;
}

int iconv_close(iconv_t converter) {
  free(converter);
  return 0;
}

/* The bytes at which ISO-8859-15 differs from ISO-8859-1. */
static const struct {
  uint8_t byte;
  uint32_t c;
} latin9[] = {{0xa4, 0x20ac}, {0xa6, 0x160}, {0xa8, 0x161}, {0xb4, 0x17d},
              {0xb8, 0x17e},  {0xbc, 0x152}, {0xbd, 0x153}, {0xbe, 0x178}};

enum { WRONG = -1, INCOMPLETE = -2 };

static int decode_utf8(const uint8_t* bytes, size_t size, uint32_t* c) {
  int length = bytes[0] < 0x80   ? 1
               : bytes[0] < 0xc2 ? 0
               : bytes[0] < 0xe0 ? 2
               : bytes[0] < 0xf0 ? 3
               : bytes[0] < 0xf5 ? 4
                                 : 0;
  if (length == 0) return WRONG;
  *c = length == 1 ? bytes[0] : bytes[0] & (0x7f >> length);
  for (int i = 1; i < length; i++) {
    if ((size_t)i == size) return INCOMPLETE;
    if ((bytes[i] & 0xc0) != 0x80) return WRONG;
    *c = *c << 6 | (bytes[i] & 0x3f);
    /* The first two bytes suffice to recognize an overlong form, a surrogate, or a character above
     * 0x10ffff. */
    if (i > 1) continue;
    if ((length == 3 && (*c < 0x20 || (*c >= 0x360 && *c < 0x380))) ||
        (length == 4 && (*c < 0x10 || *c > 0x10f)))
      return WRONG;
  }
  return length;
}

static uint32_t unit(const uint8_t* bytes, int count, int big) {
  uint32_t value = 0;
  for (int i = 0; i < count; i++) value |= (uint32_t)bytes[i] << 8 * (big ? count - 1 - i : i);
  return value;
}

/* Decodes the next character. Returns the number of its bytes, or WRONG or INCOMPLETE. */
static int decode(const struct __iconv* converter, const uint8_t* bytes, size_t size, uint32_t* c) {
  int big = converter->from_big;
  switch (converter->from.set) {
    case SET_ASCII:
      *c = bytes[0];
      return bytes[0] < 0x80 ? 1 : WRONG;
    case SET_LATIN1:
    case SET_LATIN9:
      *c = bytes[0];
      for (size_t i = 0; converter->from.set == SET_LATIN9 && i < sizeof latin9 / sizeof *latin9;
           i++) {
        if (latin9[i].byte == bytes[0]) *c = latin9[i].c;
      }
      return 1;
    case SET_UTF8:
      return decode_utf8(bytes, size, c);
    case SET_16: {
      if (size < 2) return INCOMPLETE;
      *c = unit(bytes, 2, big);
      if (*c < 0xd800 || *c >= 0xe000) return 2;
      if (!converter->from.surrogates || *c >= 0xdc00) return WRONG;
      if (size < 4) return INCOMPLETE;
      uint32_t low = unit(bytes + 2, 2, big);
      if (low < 0xdc00 || low >= 0xe000) return WRONG;
      *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
      return 4;
    }
    case SET_32:
      if (size < 4) return INCOMPLETE;
      *c = unit(bytes, 4, big);
      return *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) ? WRONG : 4;
  }
  return WRONG;
}

static void put_unit(uint8_t* bytes, uint32_t value, int count, int big) {
  for (int i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> 8 * (big ? count - 1 - i : i));
}

/* Encodes a character. Returns the number of its bytes, at most four; 0 if the set lacks it. */
static int encode(const struct coding* to, uint32_t c, uint8_t bytes[4]) {
  switch (to->set) {
    case SET_ASCII:
      bytes[0] = (uint8_t)c;
      return c < 0x80;
    case SET_LATIN1:
      bytes[0] = (uint8_t)c;
      return c < 0x100;
    case SET_LATIN9:
      bytes[0] = (uint8_t)c;
      for (size_t i = 0; i < sizeof latin9 / sizeof *latin9; i++) {
        if (latin9[i].byte == c) return 0;
        if (latin9[i].c != c) continue;
        bytes[0] = latin9[i].byte;
        return 1;
      }
      return c < 0x100;
    case SET_UTF8: {
      if (c < 0x80) {
        bytes[0] = (uint8_t)c;
        return 1;
      }
      int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
      for (int i = length - 1; i > 0; i--, c >>= 6) bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
      bytes[0] = (uint8_t)(0xf00 >> length | c);
      return length;
    }
    case SET_16:
      if (c < 0x10000) {
        put_unit(bytes, c, 2, to->big);
        return 2;
      }
      if (!to->surrogates) return 0;
      put_unit(bytes, 0xd800 + ((c - 0x10000) >> 10), 2, to->big);
      put_unit(bytes + 2, 0xdc00 + (c & 0x3ff), 2, to->big);
      return 4;
    case SET_32:
      put_unit(bytes, c, 4, to->big);
      return 4;
  }
  return 0;
}

/* Reads the byte order mark, if there is one. Returns the number of its bytes, or INCOMPLETE. */
static int read_mark(struct __iconv* converter, const uint8_t* bytes, size_t size) {
  int width = converter->from.set == SET_16 ? 2 : 4;
  if (!converter->from.marked) return 0;
  if (size < (size_t)width) return INCOMPLETE;
  for (int big = 0; big < 2; big++) {
    if (unit(bytes, width, big) != 0xfeff) continue;
    converter->from_big = big;
    return width;
  }
  return 0;
}

static void put(const uint8_t* bytes, size_t size, char** out, size_t* left) {
  memcpy(*out, bytes, size);
  *out += size;
  *left -= size;
}

size_t iconv(iconv_t converter, char** in, size_t* in_left, char** out, size_t* out_left) {
  if (in == NULL || *in == NULL) {
    converter->start = converter->first = 1; /* no set has shift states to end */
    converter->from_big = converter->from.big;
    return 0;
  }
  size_t irreversible = 0;
  int ignored = 0;
  while (*in_left > 0) {
    uint32_t c = 0;
    int used = converter->start ? read_mark(converter, (const uint8_t*)*in, *in_left) : 0;
    if (used > 0) {
      converter->start = 0;
      *in += used;
      *in_left -= (size_t)used;
      continue;
    }
    if (used == 0) used = decode(converter, (const uint8_t*)*in, *in_left, &c);
    if (used == WRONG && converter->ignore) {
      int width = converter->from.set == SET_16 ? 2 : converter->from.set == SET_32 ? 4 : 1;
      ignored = 1;
      *in += width;
      *in_left -= (size_t)width;
      continue;
    }
    if (used < 0) {
      errno = used == WRONG ? EILSEQ : EINVAL;
      return (size_t)-1;
    }
    if (converter->first && converter->to.marked) {
      uint8_t mark[4];
      size_t size = (size_t)encode(&converter->to, 0xfeff, mark);
      if (size > *out_left) {
        errno = E2BIG;
        return (size_t)-1;
      }
      put(mark, size, out, out_left);
    }
    converter->first = 0;
    uint8_t bytes[4];
    int size = encode(&converter->to, c, bytes);
    if (size == 0 && converter->substitute) {
      size = encode(&converter->to, '?', bytes);
      irreversible++;
    }
    if (size == 0 && !converter->ignore) {
      errno = EILSEQ;
      return (size_t)-1;
    }
    if ((size_t)size > *out_left) {
      errno = E2BIG;
      return (size_t)-1;
    }
    if (size == 0) ignored = 1;
    put(bytes, (size_t)size, out, out_left);
    converter->start = 0;
    *in += used;
    *in_left -= (size_t)used;
  }
  if (!ignored) return irreversible;
  errno = EILSEQ; /* a character was left out; glibc reports it so */
  return (size_t)-1;
}
