/* Shared by the files of filetest. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/testing.h"

enum { NOBODY = 65534 };

/* 1 if the tested folder is a folder of the host. All files in the folder then belong to the user
 * who runs the emulator. */
extern int on_host;

/* Creates a file with this text, or overwrites an existing one. */
void write_text(const char* path, const char* text);
/* Returns 1 if the file has this text. */
int has_text(const char* path, const char* text);
/* Waits until the child sleeps in the kernel or has ended. */
void wait_until_asleep(pid_t child);

void test_names(void);
void test_links(void);
void test_attributes(void);
void test_locks(void);
void test_fifos(void);
/* `filetest FOLDER search`. Returns the program's status. */
int lock_search(void);
