/* clock() counts microseconds, as POSIX requires; struct tm has fields for its time zone. */
#ifndef _MACHTIME_H_
#define _MACHTIME_H_
#define _CLOCKS_PER_SEC_ 1000000
#define __TM_GMTOFF tm_gmtoff /* seconds east of Greenwich */
#define __TM_ZONE tm_zone
#endif
