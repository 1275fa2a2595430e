/* popen and pclose for programs with threads. newlib's popen does not lock its list of commands,
 * and its pipes are inherited by programs that other threads start at the same time. */
#include <errno.h>
#include <fcntl.h>
#include <paths.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/lock.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

struct command {
  struct command* next;
  FILE* stream;
  pid_t pid;
};
static struct command* commands;
__LOCK_INIT(static, lock);

static FILE* fail(int error) {
  errno = error;
  return NULL;
}

/* Starts the command. In the command, descriptor `as` is the pipe's end `theirs`. The command
 * inherits no other end of a popen pipe: file actions close the streams of other popen calls, and
 * O_CLOEXEC closes the caller's end of this pipe. Returns 0 or an error number. */
static int start(const char* text, int theirs, int as, pid_t* pid) {
  char* const arguments[] = {"sh", "-c", (char*)text, NULL};
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  error = posix_spawn_file_actions_adddup2(&actions, theirs, as);
  __stele_lock(&lock);
  for (const struct command* other = commands; other != NULL && error == 0; other = other->next) {
    if (fileno(other->stream) != as)
      error = posix_spawn_file_actions_addclose(&actions, fileno(other->stream));
  }
  if (error == 0) error = posix_spawn(pid, _PATH_BSHELL, &actions, NULL, arguments, environ);
  __stele_unlock(&lock);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

FILE* popen(const char* text, const char* mode) {
  if ((*mode != 'r' && *mode != 'w') || (mode[1] != '\0' && strcmp(mode + 1, "e") != 0))
    return fail(EINVAL);
  const int reads = *mode == 'r';
  int ends[2];
  struct command* command = malloc(sizeof *command);
  if (command == NULL) return NULL;
  if (pipe2(ends, O_CLOEXEC) < 0) {
    free(command);
    return NULL;
  }
  const int ours = ends[reads ? 0 : 1], theirs = ends[reads ? 1 : 0];
  command->stream = fdopen(ours, reads ? "r" : "w");
  int error = command->stream != NULL ? 0 : errno;
  if (error == 0) error = start(text, theirs, reads ? STDOUT_FILENO : STDIN_FILENO, &command->pid);
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  close(theirs);
  if (error != 0) {
    if (command->stream != NULL)
      fclose(command->stream);
    else
      close(ours);
    free(command);
    pthread_setcancelstate(cancel_state, NULL);
    return fail(error);
  }
  pthread_setcancelstate(cancel_state, NULL);
  if (mode[1] == '\0') fcntl(ours, F_SETFD, 0);
  FILE* stream = command->stream;
  __stele_lock(&lock);
  command->next = commands;
  commands = command;
  __stele_unlock(&lock);
  return stream;
}

int pclose(FILE* stream) {
  struct command* command = NULL;
  __stele_lock(&lock);
  for (struct command** at = &commands; *at != NULL; at = &(*at)->next) {
    if ((*at)->stream != stream) continue;
    command = *at;
    *at = command->next;
    break;
  }
  __stele_unlock(&lock);
  fclose(stream);
  if (command == NULL) {
    errno = ECHILD;
    return -1;
  }
  const pid_t pid = command->pid;
  int status, cancel_state;
  free(command);
  /* Cancellation during the wait would leave the child as a zombie. */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  pid_t ended;
  do {
    ended = waitpid(pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  pthread_setcancelstate(cancel_state, NULL);
  return ended < 0 ? -1 : status;
}
