/* clock() counts microseconds, as POSIX wants. */
#ifndef _MACHTIME_H_
#define _MACHTIME_H_
#define _CLOCKS_PER_SEC_ 1000000
#endif
