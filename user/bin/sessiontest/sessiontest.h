/* Shared by the files of sessiontest. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/testing.h"

#define USER 1000 /* `user` of /etc/passwd */
#define OTHER 65534

/* The exit code of a child that would end with this one: 99 if something was expected in vain. */
int code(int wanted);
/* Calls the function, for a child's exit code. */
int run(int (*function)(void));
/* For good, as a user without rights. */
void become(uid_t uid);

void test_ids(void);
void test_groups(void);
void test_set_id(void);
void test_database(void);
void test_ptys(void);
void test_modes(void);
void test_sessions(void);
void test_files(void);

/* A pseudo-terminal. */
struct pair {
  int master, slave;
  char name[32];
};
struct pair open_pair(void);
void close_pair(struct pair* pair);
/* The next text read is `text`; waits for it. */
int reads(int fd, const char* text);
/* All of it is written at once. */
int types(int fd, const char* text);
/* The result of poll for it, without waiting. */
short ready(int fd);

/* The work of the program that a test has executed. */
int helper(int argc, char** argv);
