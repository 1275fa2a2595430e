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

/* Returns the exit code for a child: `wanted`, or CHILD_FAILED if an expectation has failed. */
int code(int wanted);
/* For a child: calls the function, and returns code() of its result. */
int run(int (*function)(void));
/* Permanently changes the process's user and group to `uid`, and drops all other groups. */
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
/* Reads as many bytes as `text` has, and waits for them. True if the bytes equal `text`. */
int reads(int fd, const char* text);
/* Writes `text` by one call. True if all of it is written. */
int types(int fd, const char* text);
/* The events that poll reports for the descriptor, without waiting. */
short ready(int fd);

/* `sessiontest helper`, which tests execute (users.c). */
int helper(int argc, char** argv);
