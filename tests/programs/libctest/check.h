/* Shared by the files of libctest. */
#pragma once

#include <errno.h>

#include "testing/testing.h"

/* Groups of checks in files of their own. */
void library(void);  /* library.c: functions that need little of the kernel */
void programs(void); /* programs.c: spawn and exec */
void trees(void);    /* trees.c: ftw, glob, wordexp */
