/* What the files of libctest share. */
#pragma once

#include <errno.h>

/* Reports a check as a line of TAP. */
#define CHECK(condition) check((condition), #condition, __LINE__)
void check(int good, const char* what, int line);

/* Groups of checks in files of their own. */
void library(void);  /* library.c: functions that need no more than memory */
void programs(void); /* programs.c: spawn and exec */
void trees(void);    /* trees.c: ftw, glob, wordexp */
