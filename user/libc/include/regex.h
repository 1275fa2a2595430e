#ifndef _STELE_REGEX_H
#define _STELE_REGEX_H
#include <sys/types.h>
/* newlib's header needs the types of <sys/types.h>. */
#include_next <regex.h>
#endif
