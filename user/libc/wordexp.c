/* Expands words as the shell does, by running the shell.
 *
 * wordexp first rejects special characters, such as "|" and ";", that are not quoted by the shell's
 * rules. So the text consists of words only. Without WRDE_NOCMD, words may contain commands in
 * $(…). Then the shell expands the words and prints each word, followed by a NUL. The first word
 * that the shell prints is the marker "x": if the marker is missing, the shell found an error.
 *
 * musl's wordexp runs commands such as "a | b", runs "$((echo x) )" in spite of WRDE_NOCMD, and
 * ignores WRDE_UNDEF.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

extern char** environ;

/* Returns the ")" that matches the "(" at `at`, or NULL. */
static const char* closing(const char* at) {
  int depth = 0;
  char quote = '\0';
  for (; *at != '\0'; at++) {
    if (*at == '\\' && quote != '\'' && at[1] != '\0')
      at++;
    else if (quote != '\0')
      quote = *at == quote ? '\0' : quote;
    else if (*at == '\'' || *at == '"')
      quote = *at;
    else if (*at == '(')
      depth++;
    else if (*at == ')' && --depth == 0)
      return at;
  }
  return NULL;
}

/* True if the $(…) at `at`, which ends at `end`, is a command, or arithmetic that contains a
 * command. In arithmetic the inner parentheses enclose everything; otherwise the shell takes $((…)
 * for a command that begins with a subshell. */
static int has_command(const char* at, const char* end) {
  if (at[2] != '(' || closing(at + 2) != end - 1) return 1;
  for (at += 3; at < end; at++)
    if (*at == '`' || (*at == '$' && at[1] == '(')) return 1;
  return 0;
}

/* Returns 0, or the WRDE_ code for the first forbidden character or construct in `words`. */
static int refuse(const char* words, int flags) {
  char quote = '\0';
  int braces = 0; /* open ${ */
  for (const char* at = words; *at != '\0'; at++) {
    if (quote == '\'') {
      if (*at == '\'') quote = '\0';
      continue;
    }
    switch (*at) {
      case '\\':
        if (at[1] == '\0') return WRDE_SYNTAX;
        at++;
        break;
      case '\'':
        if (quote == '\0') quote = '\'';
        break;
      case '"':
        quote = quote == '"' ? '\0' : '"';
        break;
      case '`':
        if (flags & WRDE_NOCMD) return WRDE_CMDSUB;
        at = strchr(at + 1, '`');
        if (at == NULL) return WRDE_SYNTAX;
        break;
      case '$':
        if (at[1] == '(') {
          const char* const end = closing(at + 1);
          if (end == NULL) return WRDE_SYNTAX;
          if ((flags & WRDE_NOCMD) && has_command(at, end)) return WRDE_CMDSUB;
          at = end;
        } else if (at[1] == '{') {
          at++;
          braces++;
        }
        break;
      case '}':
        if (braces > 0)
          braces--;
        else if (quote == '\0')
          return WRDE_BADCHAR;
        break;
      case '\n':
      case '|':
      case '&':
      case ';':
      case '<':
      case '>':
      case '(':
      case ')':
      case '{':
        if (quote == '\0' && braces == 0) return WRDE_BADCHAR;
        break;
    }
  }
  return quote != '\0' || braces > 0 ? WRDE_SYNTAX : 0;
}

/* Runs the shell. Sets `*answer` to the shell's output, which the caller frees, and `*size` to the
 * number of its bytes. Returns 0 or WRDE_NOSPACE. */
static int ask_shell(const char* words, int flags, char** answer, size_t* size) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return WRDE_NOSPACE;
  char* arguments[] = {"sh",
                       flags & WRDE_UNDEF ? "-uc" : "-c",
                       "eval \"printf %s\\\\\\\\0 x $1\"",
                       "sh",
                       (char*)words,
                       NULL};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) {
    close(ends[0]);
    close(ends[1]);
    return WRDE_NOSPACE;
  }
  pid_t child;
  int error = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (error == 0 && !(flags & WRDE_SHOWERR))
    error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  if (error == 0) error = posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);

  size_t room = 0;
  *answer = NULL;
  *size = 0;
  while (error == 0) {
    if (*size == room) {
      room = 2 * room + 512;
      char* grown = realloc(*answer, room);
      if (grown == NULL) {
        kill(child, SIGKILL);
        error = ENOMEM;
        break;
      }
      *answer = grown;
    }
    ssize_t got = read(ends[0], *answer + *size, room - *size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    *size += (size_t)got;
  }
  close(ends[0]);
  if (error == 0 || error == ENOMEM) {
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  }
  return error == 0 ? 0 : WRDE_NOSPACE;
}

int wordexp(const char* words, wordexp_t* result, int flags) {
  if (flags & WRDE_REUSE) wordfree(result);
  size_t offset = flags & WRDE_DOOFFS ? result->we_offs : 0;
  size_t old = flags & WRDE_APPEND ? result->we_wordc : 0;
  if (!(flags & WRDE_APPEND)) {
    result->we_wordc = 0;
    result->we_wordv = NULL;
  }
  int error = refuse(words, flags);
  if (error != 0) return error;

  char* answer = NULL;
  size_t size = 0;
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  error = ask_shell(words, flags, &answer, &size);
  pthread_setcancelstate(cancel_state, NULL);
  if (error == 0 && (size < 2 || answer[size - 1] != '\0'))
    error = flags & WRDE_UNDEF ? WRDE_BADVAL : WRDE_SYNTAX;
  size_t count = 0;
  for (size_t i = 2; error == 0 && i < size; i++) count += answer[i] == '\0';
  char** grown = NULL;
  if (error == 0) {
    grown = realloc(result->we_wordv, (offset + old + count + 1) * sizeof *grown);
    if (grown == NULL) error = WRDE_NOSPACE;
  }
  if (error == 0) {
    if (result->we_wordv == NULL) memset(grown, 0, (offset + old) * sizeof *grown);
    result->we_wordv = grown;
    result->we_offs = offset;
    grown[offset + old] = NULL;
    for (const char* word = answer + 2; word < answer + size; word += strlen(word) + 1) {
      char* copy = strdup(word);
      if (copy == NULL) {
        error = WRDE_NOSPACE;
        break;
      }
      grown[offset + old++] = copy;
      grown[offset + old] = NULL;
    }
    result->we_wordc = old;
  }
  free(answer);
  return error;
}

void wordfree(wordexp_t* result) {
  if (result->we_wordv != NULL) {
    for (size_t i = 0; i < result->we_wordc; i++) free(result->we_wordv[result->we_offs + i]);
  }
  free(result->we_wordv);
  result->we_wordv = NULL;
  result->we_wordc = 0;
}
