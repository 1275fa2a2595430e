/* Shared by the files of maptest. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/testing.h"

enum { PAGE = 4096, READ_WRITE = PROT_READ | PROT_WRITE };

/* Creates and opens a file of `size` bytes in the current folder. Byte i is byte_at(i). */
int make_file(const char* name, size_t size);
char byte_at(size_t i);
/* Calls mmap. If mmap fails, prints a failed check and ends the program. */
char* map(size_t size, int protection, int flags, int fd, off_t offset);

/* Read the byte, write it, or call the function. If this causes a signal, return 256 times the
 * signal's number plus si_code, or -1 if si_addr is wrong. Return 0 if there is no signal. */
int signal_of_read(const volatile char* at);
int signal_of_write(volatile char* at);
int signal_of_call(const void* function);
enum {
  BEYOND_END = SIGBUS * 256 + BUS_ADRERR,
  FORBIDDEN = SIGSEGV * 256 + SEGV_ACCERR,
  NOT_MAPPED = SIGSEGV * 256 + SEGV_MAPERR
};

void test_files(void);
void test_ends(void);
void test_protection(void);
void test_sharing(void);
void test_errors(void);
