/* The time zone in TZ, in POSIX's form: "CET-1CEST,M3.5.0,M10.5.0/3", "<+0330>-3:30". Any other
 * value, or no TZ, means UTC: there is no time zone database.
 *
 * newlib's conversions use its structure __tzinfo. It has two rules, for the start and the end of
 * summer time. Each rule has the offset (seconds west of Greenwich) that holds before its change.
 */
#include <ctype.h>
#include <reent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<sys/_tz_structs.h>)
#include <sys/_tz_structs.h> /* newer versions of newlib have __tzinfo here, not in <time.h> */
#endif

extern int __tzcalc_limits(int year);
void _tzset_unlocked(void);
void _tzset_unlocked_r(struct _reent* reent);

const char __utc[] = "UTC"; /* for musl's timegm */
char* _tzname[2] = {"UTC", "UTC"};
int _daylight;
long _timezone;
extern long timezone_object __asm__("timezone") __attribute__((alias("_timezone")));
extern int daylight_object __asm__("daylight") __attribute__((alias("_daylight")));
extern char* tzname_object[2] __asm__("tzname") __attribute__((alias("_tzname")));

enum { NAME = 16 };

struct zone {
  char names[2][NAME];
  long offsets[2]; /* of standard and summer time: seconds west of Greenwich */
  int summer;      /* true if the zone has summer time */
  __tzrule_type rules[2];
};

/* Each of the following functions reads one element of TZ at `at` and returns the text after the
 * element; NULL if the element is missing or malformed. */

static const char* read_name(const char* at, char name[NAME]) {
  int quoted = *at == '<';
  if (quoted) at++;
  size_t length = 0;
  while (isalpha((unsigned char)*at) ||
         (quoted && (isdigit((unsigned char)*at) || *at == '+' || *at == '-'))) {
    if (length + 1 >= NAME) return NULL;
    name[length++] = *at++;
  }
  name[length] = '\0';
  if (length < 3) return NULL;
  if (quoted && *at++ != '>') return NULL;
  return at;
}

static const char* read_number(const char* at, int least, int most, int* number) {
  if (!isdigit((unsigned char)*at)) return NULL;
  long value = 0;
  while (isdigit((unsigned char)*at) && value <= most) value = value * 10 + (*at++ - '0');
  if (value < least || value > most) return NULL;
  *number = (int)value;
  return at;
}

/* Reads [+-]hh[:mm[:ss]], where hh is at most `most`. */
static const char* read_time(const char* at, int most, long* seconds) {
  int sign = *at == '-' ? -1 : 1, hours = 0, minutes = 0, rest = 0;
  if (*at == '-' || *at == '+') at++;
  at = read_number(at, 0, most, &hours);
  if (at != NULL && *at == ':') at = read_number(at + 1, 0, 59, &minutes);
  if (at != NULL && *at == ':') at = read_number(at + 1, 0, 59, &rest);
  *seconds = sign * (hours * 3600L + minutes * 60 + rest);
  return at;
}

/* Reads a rule: ,Mm.w.d or ,Jn or ,n, optionally followed by /time. */
static const char* read_rule(const char* at, __tzrule_type* rule) {
  if (*at++ != ',') return NULL;
  if (*at == 'M') {
    rule->ch = 'M';
    at = read_number(at + 1, 1, 12, &rule->m);
    if (at != NULL) at = *at == '.' ? read_number(at + 1, 1, 5, &rule->n) : NULL;
    if (at != NULL) at = *at == '.' ? read_number(at + 1, 0, 6, &rule->d) : NULL;
  } else if (*at == 'J') {
    rule->ch = 'J';
    at = read_number(at + 1, 1, 365, &rule->d);
  } else {
    rule->ch = 'D';
    at = read_number(at, 0, 365, &rule->d);
  }
  long seconds = 2 * 3600;
  if (at != NULL && *at == '/') at = read_time(at + 1, 167, &seconds);
  rule->s = (int)seconds;
  return at;
}

/* Parses a time zone into `zone`. Returns 1 if `text` is a valid time zone, otherwise 0. */
static int read_zone(const char* text, struct zone* zone) {
  const char* at = read_name(text, zone->names[0]);
  if (at != NULL) at = read_time(at, 24, &zone->offsets[0]);
  if (at == NULL) return 0;
  if (*at == '\0') return 1;
  zone->summer = 1;
  zone->offsets[1] = zone->offsets[0] - 3600;
  at = read_name(at, zone->names[1]);
  if (at != NULL && *at != ',' && *at != '\0') at = read_time(at, 24, &zone->offsets[1]);
  if (at == NULL) return 0;
  if (*at == '\0') at = ",M3.2.0,M11.1.0"; /* the rules of the United States, as on other systems */
  at = read_rule(at, &zone->rules[0]);
  if (at != NULL) at = read_rule(at, &zone->rules[1]);
  return at != NULL && *at == '\0';
}

void _tzset_unlocked(void) {
  static struct zone zone;
  static char* known; /* the value of TZ from which `zone` was made; NULL before the first call */
  const char* value = getenv("TZ");
  if (value == NULL) value = "";
  if (strcmp(value, known != NULL ? known : "") == 0) return;
  free(known);
  known = strdup(value);

  struct zone read = {0};
  if (*value == ':') value++;
  if (!read_zone(value, &read)) read = (struct zone){.names = {"UTC"}};
  if (!read.summer) strcpy(read.names[1], read.names[0]);
  zone = read;
  __tzinfo_type* info = __gettzinfo();
  for (int i = 0; i < 2; i++) {
    info->__tzrule[i] = zone.rules[i];
    info->__tzrule[i].offset = zone.offsets[zone.summer ? i : 0];
    _tzname[i] = zone.names[i];
  }
  _timezone = zone.offsets[0];
  _daylight = zone.summer;
  if (zone.summer) __tzcalc_limits(info->__tzyear);
}

void _tzset_unlocked_r(struct _reent* reent) {
  (void)reent;
  _tzset_unlocked();
}
void _tzset_r(struct _reent* reent) {
  (void)reent;
  _tzset_unlocked();
}
void tzset(void) {
  _tzset_unlocked();
}
