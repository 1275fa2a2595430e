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

enum { NOBODY = 65534 };

/* 1 on a device whose files all belong to the user who runs the emulator. */
extern int on_host;

#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
void check(int good, const char* what, const char* file, int line);
/* Did a call give -1 with this error number? */
#define FAILS(call, error) ((call) == -1 && errno == (error))

/* Makes a file with this text. */
void write_text(const char* path, const char* text);
/* Does the file have it? */
int has_text(const char* path, const char* text);
/* Runs function(argument) in a child; returns its PID. The function's result is the exit code. */
pid_t start(int (*function)(void*), void* argument);
int wait_for(pid_t child); /* its exit code, or the signal and 128 */
/* Waits until the process sleeps in the kernel. */
void wait_until_asleep(pid_t child);

void test_names(void);
void test_links(void);
void test_attributes(void);
void test_locks(void);
void test_fifos(void);
