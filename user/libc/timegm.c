/* Converts a calendar date to seconds, without a time zone. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <time.h>

/* Returns the days from 1 January 1970 to the first day of a month. Month 0 is January; `month` may
 * be outside of 0..11. The computation uses years that begin in March, so that a leap day is the
 * last day of its year. 400 years have 146,097 days. */
static int64_t days_before(int64_t year, int64_t month) {
  year += month / 12;
  month %= 12;
  if (month < 0) month += 12, year--;
  month -= 2;
  if (month < 0) month += 12, year--;
  int64_t era = (year >= 0 ? year : year - 399) / 400;
  int64_t of_era = year - era * 400;
  int64_t of_year = (153 * month + 2) / 5;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

time_t timegm(struct tm* calendar) {
  int64_t days = days_before((int64_t)calendar->tm_year + 1900, calendar->tm_mon);
  days += calendar->tm_mday - 1;
  time_t seconds =
      (time_t)(((days * 24 + calendar->tm_hour) * 60 + calendar->tm_min) * 60 + calendar->tm_sec);
  struct tm normal;
  if (gmtime_r(&seconds, &normal) == NULL) {
    errno = EOVERFLOW;
    return (time_t)-1;
  }
  *calendar = normal; /* fields in their ranges, with the day of the week and of the year */
  return seconds;
}

time_t timelocal(struct tm* calendar) {
  return mktime(calendar);
}

int timespec_get(struct timespec* time, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}
