/* Functions of the C library that need little of the kernel. */
#include <ctype.h>
#include <dlfcn.h>
#include <endian.h>
#include <float.h>
#include <getopt.h>
#include <iconv.h>
#include <langinfo.h>
#include <libgen.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <uchar.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "check.h"

static void loading(void) {
  CHECK(dlerror() == NULL);
  CHECK(dlopen("libx.so", RTLD_NOW) == NULL);
  const char* why = dlerror();
  CHECK(why != NULL && strncmp(why, "libx.so: ", 9) == 0 && dlerror() == NULL);
  CHECK(dlsym(RTLD_DEFAULT, "printf") == NULL && dlerror() != NULL);
  CHECK(dlclose(NULL) != 0 && dlerror() != NULL);
}

static void randomness(void) {
  static unsigned char bytes[1000], others[1000];
  CHECK(getrandom(bytes, sizeof bytes, 0) == 1000 &&
        getrandom(others, 1000, GRND_NONBLOCK) == 1000);
  CHECK(memcmp(bytes, others, sizeof bytes) != 0);
  CHECK(getrandom(bytes, 1, 0x80) == -1 && errno == EINVAL);
  CHECK(getrandom((void*)16, 1, 0) == -1 && errno == EFAULT);
  /* Without a seed, random() begins as after srandom(1). */
  const long first = random();
  srandom(1);
  CHECK(random() == first && (first >> 31) == 0);
  srandom(42);
  long numbers[3];
  for (int i = 0; i < 3; i++) numbers[i] = random();
  CHECK(numbers[0] != first && numbers[1] != numbers[0] && numbers[2] != numbers[1]);
  static int large[32], small[2];
  char* const original = initstate(42, (char*)large, sizeof large);
  CHECK(original != NULL && random() == numbers[0]);
  CHECK(initstate(1, (char*)small, sizeof small) == (char*)large && random() != random());
  CHECK(setstate((char*)large) == (char*)small && random() == numbers[1]);
  CHECK(setstate((char*)large) == (char*)large && random() == numbers[2]);
  CHECK(initstate(1, (char*)small, 7) == NULL);
  CHECK(setstate(original) == (char*)large);
  long any = 0, all = INT32_MAX;
  for (int i = 0; i < 100; i++) {
    const long number = random();
    any |= number;
    all &= number;
  }
  CHECK(any == INT32_MAX && all == 0);
  srand48(1);
  CHECK(lrand48() == 89400484 && fabs(drand48() - 0.454492) < 1e-6);
}

static void times_and_zones(void) {
  struct tm calendar = {.tm_year = 124, .tm_mon = 13, .tm_mday = -1, .tm_hour = 25};
  CHECK(timegm(&calendar) == 1738285200 && calendar.tm_mon == 0 && calendar.tm_year == 125 &&
        calendar.tm_mday == 31 && calendar.tm_wday == 5 && calendar.tm_yday == 30);
  struct tm early = {.tm_year = -300, .tm_mon = 1, .tm_mday = 29};
  CHECK(timegm(&early) == -11670998400);
  struct timespec now;
  CHECK(timespec_get(&now, TIME_UTC) == TIME_UTC && now.tv_sec - time(NULL) <= 1 &&
        timespec_get(&now, 99) == 0);

  /* Summer time of central Europe began at 2024-03-31 01:00 UTC. */
  setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
  tzset();
  time_t moment = 1711846800;
  struct tm* local = localtime(&moment);
  CHECK(local->tm_hour == 3 && local->tm_isdst == 1 && strcmp(tzname[1], "CEST") == 0);
  CHECK(local->tm_gmtoff == 7200 && strcmp(local->tm_zone, "CEST") == 0);
  moment--;
  local = localtime(&moment);
  CHECK(local->tm_hour == 1 && local->tm_min == 59 && local->tm_isdst == 0);
  CHECK(mktime(local) == moment && timezone == -3600);
  char text[64];
  CHECK(strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z %Z", local) > 0 &&
        strcmp(text, "2024-03-31 01:59:59 +0100 CET") == 0);
  struct tm summer = {.tm_year = 124, .tm_mon = 6, .tm_mday = 1, .tm_isdst = -1};
  CHECK(mktime(&summer) == 1719784800 && summer.tm_gmtoff == 7200 &&
        strcmp(summer.tm_zone, "CEST") == 0);
  CHECK(strftime(text, sizeof text, "%H %z %Z", gmtime(&moment)) > 0 &&
        strcmp(text, "00 +0000 UTC") == 0);
  unsetenv("TZ");
  tzset();
  moment++;
  CHECK(localtime(&moment)->tm_hour == 1);

  struct tm read = {0};
  const char* rest = strptime("2015-03-05T23:51:47Z!", "%Y-%m-%dT%H:%M:%SZ", &read);
  CHECK(rest != NULL && strcmp(rest, "!") == 0 && read.tm_mday == 5 && timegm(&read) == 1425599507);
  CHECK(strptime("Thu, 05 Mar 2015", "%a, %d %b %Y", &read) != NULL && read.tm_wday == 4);
  CHECK(strptime("nonsense", "%Y", &read) == NULL);
}

static void locales(void) {
  wchar_t wide[8];
  CHECK(strcmp(setlocale(LC_ALL, NULL), "C") == 0);
  setenv("LC_ALL", "C.UTF-8", 1);
  CHECK(setlocale(LC_ALL, "") != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
  CHECK(MB_CUR_MAX >= 4 && mbstowcs(wide, "a\u00e4\u20ac\U0001f600", 8) == 4);
  CHECK(wide[2] == 0x20ac && wide[3] == 0x1f600);
  CHECK(wcwidth(L'a') == 1 && wcwidth(0x4e2d) == 2 && wcwidth(0x301) == 0 && wcwidth(7) == -1);
  CHECK(iswalpha(0xe4) && towupper(0xe4) == 0xc4 && !iswalpha(0x20ac));
  char bytes[MB_LEN_MAX + 1] = "";
  CHECK(wctomb(bytes, 0x20ac) == 3 && memcmp(bytes, "\xe2\x82\xac", 3) == 0);
  CHECK(mbtowc(wide, "\xff", 1) == -1 && mbtowc(wide, "\xc0\x80", 2) == -1);
  char text[32];
  CHECK(snprintf(text, sizeof text, "%ls|%5s", L"\u00e4", "x") == 8);
  unsetenv("LC_ALL");
  CHECK(setlocale(LC_ALL, "C") != NULL && strcmp(nl_langinfo(CODESET), "ASCII") == 0);
  CHECK(setlocale(LC_ALL, "nosuch_PLACE.EBCDIC") == NULL);
  CHECK(setlocale(LC_ALL, "xx_YY") == NULL && setlocale(LC_ALL, "de_DE.ISO-8859-1") == NULL);
  CHECK(strcmp(setlocale(LC_ALL, NULL), "C") == 0);
  CHECK(setlocale(LC_ALL, "xx_YY.UTF-8") != NULL && setlocale(LC_ALL, "POSIX") != NULL);

  locale_t utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
  CHECK(utf8 != (locale_t)0 && strcmp(nl_langinfo_l(CODESET, utf8), "UTF-8") == 0);
  freelocale(utf8);
}

/* Converts `size` bytes of `text` from the encoding `from` to `to`. After an error returns "error",
 * with errno set. */
static const char* converted(const char* to, const char* from, const char* text, size_t size) {
  static char result[32];
  char *in = (char*)text, *out = result;
  size_t room = sizeof result - 1;
  iconv_t converter = iconv_open(to, from);
  if (converter == (iconv_t)-1) return "error";
  size_t done = iconv(converter, &in, &size, &out, &room);
  *out = '\0';
  iconv_close(converter);
  return done == (size_t)-1 ? "error" : result;
}

/* Converts one invalid or incomplete character to UTF-8. Returns errno, or 0 if iconv takes the
 * character. */
static int refused(const char* from, const char* text) {
  errno = 0;
  return strcmp(converted("UTF-8", from, text, strlen(text)), "error") == 0 ? errno : 0;
}

static void conversions(void) {
  CHECK(strcmp(converted("UTF-8", "latin1", "\xe4", 1), "\u00e4") == 0);
  CHECK(strcmp(converted("utf8", "UTF-16", "\xff\xfe\x3d\xd8\x00\xde", 6), "\U0001f600") == 0);
  CHECK(memcmp(converted("UTF-16BE", "utf8", "\U0001f600", 4), "\xd8\x3d\xde", 4) == 0);
  CHECK(memcmp(converted("WCHAR_T", "UTF-8", "\u20ac\u00e4", 5), L"\u20ac\u00e4", 8) == 0);
  CHECK(strcmp(converted("UTF-8", "KOI8-R", "\xc1", 1), "\u0430") == 0);
  CHECK(strcmp(converted("CP1252", "UTF-8", "\u20ac", 3), "\x80") == 0);
  CHECK(strcmp(converted("UTF-8", "Shift_JIS", "\x93\xfa", 2), "\u65e5") == 0);
  CHECK(strcmp(converted("UTF-8", "EUC-KR", "\xb0\xa1", 2), "\uac00") == 0);
  /* An asterisk replaces a character that the target lacks. */
  CHECK(strcmp(converted("ASCII//TRANSLIT", "UTF-8", "a\u20ac", 4), "a*") == 0);
  CHECK(strcmp(converted("ASCII", "UTF-8", "a\u20ac", 4), "a*") == 0);
  CHECK(refused("UTF-8", "\xe2\x82") == EINVAL && refused("UTF-8", "\xe2\x82x") == EILSEQ);
  CHECK(refused("UTF-8", "\xc0\x80") == EILSEQ && refused("UTF-8", "\xed\xa0\x80") == EILSEQ);
  CHECK(refused("UTF-8", "\xf4\x90\x80\x80") == EILSEQ && refused("ASCII", "\x80") == EILSEQ);
  CHECK(refused("EUC-KR", "\xc8\x41") == EILSEQ && refused("Shift_JIS", "\xef\xfc") == EILSEQ);
  CHECK(iconv_open("UTF-8", "nosuch") == (iconv_t)-1 && errno == EINVAL);
  CHECK(iconv_open("ASCII//IGNORE", "UTF-8") == (iconv_t)-1 && errno == EINVAL);

  /* The output has no room for the second character. Then the byte order mark is forgotten. */
  iconv_t converter = iconv_open("UTF-8", "UTF-16");
  char input[] = "\xff\xfe\xe4\x00\xe4", output[4], *in = input, *out = output;
  size_t size = 6, room = 3;
  CHECK(iconv(converter, &in, &size, &out, &room) == (size_t)-1 && errno == E2BIG && size == 2 &&
        room == 1);
  CHECK(iconv(converter, NULL, NULL, NULL, NULL) == 0);
  in = (char[]){0, 'x'}, out = output, size = 2, room = 4;
  CHECK(iconv(converter, &in, &size, &out, &room) == 0 && room == 3 && output[0] == 'x');
  iconv_close(converter);
  setlocale(LC_ALL, "C.UTF-8");
  char16_t half = 0;
  mbstate_t state = {0};
  CHECK(mbrtoc16(&half, "\U0001f600", 4, &state) == 4 && half == 0xd83d);
  CHECK(mbrtoc16(&half, "x", 1, &state) == (size_t)-3 && half == 0xde00);
  char bytes[MB_LEN_MAX];
  CHECK(c16rtomb(bytes, 0xd83d, &state) == 0 && c16rtomb(bytes, 0xde00, &state) == 4 &&
        memcmp(bytes, "\U0001f600", 4) == 0);
  CHECK(c32rtomb(bytes, 0x20ac, NULL) == 3);
  setlocale(LC_ALL, "C");
}

static void expressions(void) {
  regex_t expression;
  regmatch_t matches[3];
  CHECK(regcomp(&expression, "^([a-z]+)([0-9]{2,3})$", REG_EXTENDED | REG_ICASE) == 0);
  CHECK(regexec(&expression, "Abc123", 3, matches, 0) == 0 && matches[1].rm_eo == 3 &&
        matches[2].rm_so == 3 && matches[2].rm_eo == 6);
  CHECK(regexec(&expression, "abc1", 3, matches, 0) == REG_NOMATCH);
  regfree(&expression);
  CHECK(regcomp(&expression, "\\(a*\\)b\\1", 0) == 0 &&
        regexec(&expression, "aabaa", 3, matches, 0) == 0 && matches[0].rm_eo == 5);
  regfree(&expression);
  int error = regcomp(&expression, "a(b", REG_EXTENDED);
  char text[64];
  CHECK(error == REG_EPAREN && regerror(error, &expression, text, sizeof text) > 0);
}

static void streams(void) {
  char* text = NULL;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  CHECK(stream != NULL && fprintf(stream, "%s %d", "memory", 7) == 8 && fclose(stream) == 0);
  CHECK(size == 8 && strcmp(text, "memory 7") == 0);
  free(text);
  char buffer[] = "one two";
  stream = fmemopen(buffer, 7, "r");
  char word[8];
  CHECK(stream != NULL && fscanf(stream, "%7s", word) == 1 && strcmp(word, "one") == 0);
  flockfile(stream);
  CHECK(ftrylockfile(stream) == 0 && getc_unlocked(stream) == ' ');
  funlockfile(stream);
  funlockfile(stream);
  fclose(stream);
  CHECK(asprintf(&text, "%'d %zu %jd %td %Lg", 1234, (size_t)1, (intmax_t)2, (ptrdiff_t)3, 0.5L) >
        0);
  CHECK(strcmp(text, "1234 1 2 3 0.5") == 0);
  free(text);
  stream = tmpfile();
  CHECK(stream != NULL && dprintf(fileno(stream), "%x", 255) == 2);
  rewind(stream);
  CHECK(fgetc(stream) == 'f' && fclose(stream) == 0);
  char name[] = "/tmp/libctestXXXXXX.c";
  int fd = mkstemps(name, 2);
  CHECK(fd >= 0 && strstr(name, "XXXXXX") == NULL && close(fd) == 0 && unlink(name) == 0);
  char folder[] = "/tmp/libctestXXXXXX";
  CHECK(mkdtemp(folder) == folder && rmdir(folder) == 0);
  char wrong[] = "/tmp/libctestXXXX";
  CHECK(mkstemp(wrong) == -1 && errno == EINVAL);
}

/* Checks syslog's output. For this, standard error is replaced by a pipe. */
static void messages(void) {
  int ends[2], error = dup(STDERR_FILENO);
  char text[256] = "";
  CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
  openlog("logger", 0, LOG_USER);
  CHECK(setlogmask(LOG_UPTO(LOG_WARNING)) == LOG_UPTO(LOG_DEBUG));
  errno = EEXIST;
  syslog(LOG_ERR, "%d%% of %s: %m", 50, "all");
  syslog(LOG_DEBUG, "unseen");
  closelog();
  syslog(LOG_ERR, "end\n");
  dup2(error, STDERR_FILENO);
  close(error);
  close(ends[1]);
  CHECK(read(ends[0], text, sizeof text - 1) > 0);
  CHECK(strcmp(text, "logger: 50% of all: File exists\nlibctest: end\n") == 0);
  close(ends[0]);
  CHECK(strcmp(program_invocation_short_name, "libctest") == 0);
}

static int compare_ints(const void* a, const void* b) {
  return *(const int*)a - *(const int*)b;
}
static int count, freed;
static void count_node(const void* node, VISIT when, int depth) {
  (void)node, (void)depth;
  if (when == postorder || when == leaf) count++;
}
static void count_freed(void* node) {
  (void)node;
  freed++;
}

static void searching(void) {
  int numbers[8] = {5, 3, 9};
  size_t used = 3;
  int key = 9;
  CHECK(lfind(&key, numbers, &used, sizeof *numbers, compare_ints) == &numbers[2]);
  key = 7;
  CHECK(lfind(&key, numbers, &used, sizeof *numbers, compare_ints) == NULL);
  CHECK(lsearch(&key, numbers, &used, sizeof *numbers, compare_ints) == &numbers[3] && used == 4 &&
        numbers[3] == 7);
  void* root = NULL;
  for (size_t i = 0; i < used; i++) tsearch(&numbers[i], &root, compare_ints);
  CHECK(**(int**)tfind(&key, &root, compare_ints) == 7);
  CHECK(tdelete(&numbers[0], &root, compare_ints) != NULL);
  twalk(root, count_node);
  tdestroy(root, count_freed);
  CHECK(count == 3 && freed == 3);
  CHECK(hcreate(10) != 0 && hsearch((ENTRY){.key = strdup("k"), .data = &key}, ENTER) != NULL);
  ENTRY* entry = hsearch((ENTRY){.key = "k"}, FIND);
  CHECK(entry != NULL && entry->data == &key && hsearch((ENTRY){.key = "l"}, FIND) == NULL);
  hdestroy();
  struct {
    void *next, *previous;
  } a, b, c;
  insque(&a, NULL);
  insque(&c, &a);
  insque(&b, &a);
  CHECK(a.next == &b && b.next == &c && c.previous == &b && c.next == NULL);
  remque(&b);
  CHECK(a.next == &c && c.previous == &a);
}

static void words(void) {
  char path[] = "/usr/lib/", bare[] = "x";
  CHECK(strcmp(basename(path), "lib") == 0 && strcmp(basename(bare), "x") == 0);
  char again[] = "/usr/lib/";
  CHECK(strcmp(dirname(again), "/usr") == 0 && strcmp(dirname(bare), ".") == 0);
  CHECK(confstr(_CS_PATH, path, 3) == 14 && strcmp(path, "/b") == 0);
  CHECK(confstr(12345, NULL, 0) == 0 && errno == EINVAL);
  CHECK(htobe32(0x01020304) == 0x04030201 && le16toh(7) == 7);
  CHECK(strcmp(strcasestr("A Needle", "needle"), "Needle") == 0);
  CHECK(memmem("abcabd", 6, "abd", 3) != NULL && *strchrnul("abc", 'x') == '\0');
  char* list = strdup("a,b=2,c");
  char* options[] = {"a", "b", NULL};
  char *value, *rest = list;
  CHECK(getsubopt(&rest, options, &value) == 0 && getsubopt(&rest, options, &value) == 1 &&
        strcmp(value, "2") == 0 && getsubopt(&rest, options, &value) == -1);
  free(list);
  char fields[] = "a::b:";
  rest = fields;
  CHECK(strcmp(strsep(&rest, ":"), "a") == 0 && *strsep(&rest, ":") == '\0' &&
        strcmp(strsep(&rest, ":"), "b") == 0);
  CHECK(*strsep(&rest, ":") == '\0' && rest == NULL && strsep(&rest, ":") == NULL);

  char* arguments[] = {"x", "-", "--size=7", "-vz", "--", "-n", NULL};
  const struct option long_options[] = {{"size", required_argument, NULL, 's'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {NULL, 0, NULL, 0}};
  CHECK(optind == 1 && getopt_long(6, arguments, "s:v", long_options, NULL) == 's' &&
        strcmp(optarg, "7") == 0);
  CHECK(getopt_long(6, arguments, "s:v", long_options, NULL) == 'v');
  opterr = 0;
  CHECK(getopt_long(6, arguments, "s:v", long_options, NULL) == '?' && optopt == 'z');
  CHECK(getopt_long(6, arguments, "s:v", long_options, NULL) == -1 && optind == 4);
  CHECK(strcmp(arguments[4], "-") == 0 && strcmp(arguments[5], "-n") == 0);
}

/* Functions of long double have the precision and the range of 80 bits. The arguments are volatile,
 * so that the compiler does not compute the results itself. */
static void long_numbers(void) {
  volatile long double one = 1, two = 2, ten = 10, least = LDBL_MIN, most = LDBL_MAX;
  const long double e = LDBL_EPSILON;
  CHECK(fabsl(sinl(one) - 0.8414709848078965066525L) < e);
  CHECK(fabsl(atan2l(-one, -one) + 3 * M_PI_4l) < 4 * e);
  CHECK(fabsl(powl(two, 0.5L) - M_SQRT2l) < 2 * e);
  CHECK(fabsl(logl(ten) - M_LN10l) < 4 * e && log2l(least) == LDBL_MIN_EXP - 1);
  CHECK(fabsl(erfl(one) - 0.8427007929497148693412L) < e);
  CHECK(expl(1100 * ten) > 1.735e4777L && expl(1100 * ten) < 1.736e4777L);
  CHECK(fabsl(tgammal(100 * ten) / 4.023872600770937735437e2564L - 1) < 1e-15L);
  CHECK(fabsl(sinl(most)) <= 1 && fmodl(most, 3) >= 0 && fmodl(most, 3) < 3);
  CHECK(lgammal(-one / 2) > 1.2L && signgam == -1);
  CHECK(tgammal(-14.75L * one) < 0 && powl(-2.5L * one, 99999) == -INFINITY &&
        isfinite(sinhl(11356 * one)));
  int quotient;
  CHECK(remquol(-29 * one, 4, &quotient) == -1 && quotient == -7);
  volatile double eight = 8;
  volatile float small = 0x1p-140f;
  CHECK(log2(eight) == 3 && log2f(small) == -140);
}

static void numbers(void) {
  int sign = 0, exponent;
  CHECK(fabs(lgamma_r(-0.5, &sign) - 1.2655121234846454) < 1e-14 && sign == -1);
  CHECK(exp10(3) == 1000 && pow10(-1) == 0.1 && drem(7, 4) == -1 && significand(10) == 1.25);
  CHECK(frexp(10, &exponent) == 0.625 && exponent == 4 && logb(10) == 3 && scalb(3, 2) == 12);
  CHECK(fabs(lgamma(5) - log(24)) < 1e-14 && fabs(tgamma(5) - 24) < 1e-12);
  CHECK(nearbyint(2.5) == 2 && rint(-1.5) == -2 && trunc(-1.7) == -1 && round(2.5) == 3);
  CHECK(strtod("0x1.8p3", NULL) == 12 && strtod("inf", NULL) == INFINITY);
  CHECK(strtold("1e4000", NULL) > 1e300L && isinf(strtod("1e4000", NULL)));
  char text[64];
  CHECK(snprintf(text, sizeof text, "%.17g %a %.0f", 0.1, 1.0, 2.5) > 0 &&
        strcmp(text, "0.10000000000000001 0x1p+0 2") == 0);
  /* Rounded once: the product alone would lose its last bits. */
  volatile long double e = LDBL_EPSILON, least = LDBL_MIN, most = LDBL_MAX;
  volatile double d = DBL_EPSILON;
  volatile float f = FLT_EPSILON;
  CHECK(fmal(1 + e, 1 - e, -1) == -e * e && fma(1 + d, 1 - d, -1) == -d * d &&
        fmaf(1 + f, 1 - f, -1) == -f * f);
  CHECK(signbit(fma(-DBL_TRUE_MIN, d, 0)) && !signbit(fma(DBL_TRUE_MIN, d, 0)));
  CHECK(fmal(most, 2, -most) == most && fmal(least, e, least) == least * (1 + e));
  CHECK(fmal(most, 2, -INFINITY) == -INFINITY && isnan(fmal(INFINITY, 0 * e, 1)));
  CHECK(gamma(5) == lgamma(5) && fabsl(sinl(1) - 0.8414709848078965L) < 1e-15L);
  int at, negative;
  CHECK(strcmp(ecvt(-1234.5, 6, &at, &negative), "123450") == 0 && at == 4 && negative);
}

void library(void) {
  loading();
  randomness();
  times_and_zones();
  locales();
  conversions();
  expressions();
  streams();
  messages();
  searching();
  words();
  numbers();
  long_numbers();
}
