/* Finds the paths that match a pattern.
 *
 * First braces are expanded, as in csh; each resulting pattern is searched separately. The search
 * takes one component of the pattern at a time. A component without special characters is appended
 * to the current path. If a component has special characters, fnmatch compares it with each name in
 * the directory at the current path. The paths found are collected in a list, sorted, and moved to
 * the caller's glob_t.
 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct search {
  int flags;
  int (*failed)(const char* path, int error);
  char** found;        /* the paths found */
  size_t count, room;  /* entries of `found` that are used, and allocated */
  char path[PATH_MAX]; /* the current path; the functions' `length` is its length */
};

static int add(struct search* search, const char* path, int mark) {
  if (search->count == search->room) {
    size_t room = 2 * search->room + 16;
    char** grown = realloc(search->found, room * sizeof *grown);
    if (grown == NULL) return GLOB_NOSPACE;
    search->found = grown;
    search->room = room;
  }
  size_t length = strlen(path);
  char* copy = malloc(length + 2);
  if (copy == NULL) return GLOB_NOSPACE;
  memcpy(copy, path, length + 1);
  if (mark && length > 0 && copy[length - 1] != '/') strcpy(copy + length, "/");
  search->found[search->count++] = copy;
  return 0;
}

/* Returns 1 if the first `length` bytes of the pattern have special characters. */
static int is_magic(const char* pattern, size_t length, int flags) {
  for (size_t i = 0; i < length; i++) {
    if (strchr("*?[", pattern[i]) != NULL) return 1;
    if (pattern[i] == '\\' && !(flags & GLOB_NOESCAPE)) i++;
  }
  return 0;
}

/* Appends a component to the path. If `plain` is 0, removes the backslashes that escape characters.
 * Returns the new length; 0 if there is no room. */
static size_t append(struct search* search, size_t length, const char* from, size_t size,
                     int plain) {
  for (size_t i = 0; i < size; i++) {
    if (!plain && from[i] == '\\' && i + 1 < size && !(search->flags & GLOB_NOESCAPE)) i++;
    if (length + 1 >= sizeof search->path) return 0;
    search->path[length++] = from[i];
  }
  search->path[length] = '\0';
  return length;
}

static int error_at(struct search* search, int error) {
  const char* path = search->path[0] == '\0' ? "." : search->path;
  if (search->failed != NULL && search->failed(path, error) != 0) return GLOB_ABORTED;
  return search->flags & GLOB_ERR ? GLOB_ABORTED : 0;
}

/* Adds the path to the list if the file exists. A dangling link exists, too. */
static int end(struct search* search, size_t length) {
  struct stat status;
  if (length == 0) return 0;
  int known = stat(search->path, &status) == 0;
  if (!known && lstat(search->path, &status) < 0) return 0;
  int directory = known && S_ISDIR(status.st_mode);
  if ((search->flags & GLOB_ONLYDIR) && !directory) return 0;
  return add(search, search->path, (search->flags & GLOB_MARK) && directory);
}

static int walk(struct search* search, size_t length, const char* pattern);

/* Matches the pattern's first component, `size` bytes, with the names of the directory at the
 * current path, and continues the search below each match. */
static int list(struct search* search, size_t length, const char* pattern, size_t size) {
  char component[NAME_MAX + 1];
  if (size >= sizeof component) return 0;
  memcpy(component, pattern, size);
  component[size] = '\0';
  int flags = (search->flags & GLOB_NOESCAPE ? FNM_NOESCAPE : 0) |
              (search->flags & GLOB_PERIOD ? 0 : FNM_PERIOD);
  DIR* directory = opendir(length == 0 ? "." : search->path);
  if (directory == NULL) {
    return errno == ENOTDIR || errno == ENOENT ? 0 : error_at(search, errno);
  }
  int result = 0;
  while (result == 0) {
    errno = 0;
    const struct dirent* entry = readdir(directory);
    if (entry == NULL) {
      if (errno != 0) result = error_at(search, errno);
      break;
    }
    const char* name = entry->d_name;
    int itself = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    if (itself && component[0] != '.') continue;
    if (fnmatch(component, name, flags) != 0) continue;
    size_t new_length = append(search, length, name, strlen(name), 1);
    if (new_length > 0) result = walk(search, new_length, pattern + size);
    search->path[length] = '\0';
  }
  closedir(directory);
  return result;
}

/* Finds the paths that match the rest of the pattern below the path of `length` bytes. */
static int walk(struct search* search, size_t length, const char* pattern) {
  size_t slashes = strspn(pattern, "/");
  if (slashes > 0) {
    length = append(search, length, pattern, slashes, 1);
    if (length == 0) return 0;
    pattern += slashes;
  }
  if (*pattern == '\0') return end(search, length);
  size_t size = strcspn(pattern, "/");
  if (is_magic(pattern, size, search->flags)) return list(search, length, pattern, size);
  length = append(search, length, pattern, size, 0);
  return length == 0 ? 0 : walk(search, length, pattern + size);
}

/* Expands "~" or "~user" at the start of the pattern: copies the home directory to the path and its
 * length to `length`. Returns the rest of the pattern; the whole pattern if it does not begin with
 * a tilde, or if there is no such user. */
static const char* tilde(struct search* search, const char* pattern, size_t* length) {
  size_t size = strcspn(pattern, "/");
  char name[64];
  if (pattern[0] != '~' || size > sizeof name) return pattern;
  memcpy(name, pattern + 1, size - 1);
  name[size - 1] = '\0';
  const char* home = name[0] == '\0' ? getenv("HOME") : NULL;
  if (home == NULL) {
    const struct passwd* user = name[0] == '\0' ? getpwuid(getuid()) : getpwnam(name);
    if (user == NULL) return pattern;
    home = user->pw_dir;
  }
  *length = append(search, 0, home, strlen(home), 1);
  return pattern + size;
}

static int one_pattern(struct search* search, const char* pattern) {
  size_t length = 0;
  search->path[0] = '\0';
  if (search->flags & GLOB_TILDE) pattern = tilde(search, pattern, &length);
  return walk(search, length, pattern);
}

/* Skips an element of a brace expression, with the braces and escapes inside the element. Returns
 * the comma or brace that ends the element; NULL if there is none. */
static const char* brace_element(const char* at, int flags) {
  int depth = 0;
  for (; *at != '\0'; at++) {
    if (*at == '\\' && !(flags & GLOB_NOESCAPE) && at[1] != '\0')
      at++;
    else if (*at == '{')
      depth++;
    else if (depth == 0 && (*at == ',' || *at == '}'))
      return at;
    else if (*at == '}')
      depth--;
  }
  return NULL;
}

static int braces(struct search* search, const char* pattern) {
  const char* open = pattern;
  while ((open = strchr(open, '{')) != NULL &&
         (open[1] == '}' || (open > pattern && open[-1] == '\\')))
    open++;
  const char* close = open != NULL ? brace_element(open + 1, search->flags) : NULL;
  while (close != NULL && *close == ',') close = brace_element(close + 1, search->flags);
  if (close == NULL) return one_pattern(search, pattern);
  char* chosen = malloc(strlen(pattern) + 1);
  if (chosen == NULL) return GLOB_NOSPACE;
  int result = 0;
  for (const char* element = open + 1; result == 0 && element <= close;) {
    const char* stop = brace_element(element, search->flags);
    size_t before = (size_t)(open - pattern), size = (size_t)(stop - element);
    memcpy(chosen, pattern, before);
    memcpy(chosen + before, element, size);
    strcpy(chosen + before + size, close + 1);
    result = braces(search, chosen);
    element = stop + 1;
  }
  free(chosen);
  return result;
}

static int compare(const void* a, const void* b) {
  return strcoll(*(char* const*)a, *(char* const*)b);
}

/* Moves the paths found to the caller's glob_t. */
static int give(struct search* search, glob_t* result) {
  int flags = search->flags;
  size_t offset = flags & GLOB_DOOFFS ? result->gl_offs : 0;
  size_t old = flags & GLOB_APPEND ? result->gl_pathc : 0;
  char** paths = flags & GLOB_APPEND ? result->gl_pathv : NULL;
  char** grown = realloc(paths, (offset + old + search->count + 1) * sizeof *grown);
  if (grown == NULL) return GLOB_NOSPACE;
  if (paths == NULL) memset(grown, 0, offset * sizeof *grown);
  if (!(flags & GLOB_NOSORT) && search->count > 1)
    qsort(search->found, search->count, sizeof *search->found, compare);
  if (search->count > 0) memcpy(grown + offset + old, search->found, search->count * sizeof *grown);
  result->gl_pathv = grown;
  result->gl_pathc = old + search->count;
  grown[offset + result->gl_pathc] = NULL;
  search->count = 0;
  return 0;
}

int glob(const char* pattern, int flags, int (*failed)(const char*, int), glob_t* result) {
  struct search search = {.flags = flags, .failed = failed};
  if (!(flags & GLOB_APPEND)) {
    result->gl_pathc = 0;
    result->gl_pathv = NULL;
    if (!(flags & GLOB_DOOFFS)) result->gl_offs = 0;
  }
  int error = flags & GLOB_BRACE ? braces(&search, pattern) : one_pattern(&search, pattern);
  if (error == 0 && search.count == 0) {
    int itself = (flags & GLOB_NOCHECK) ||
                 ((flags & GLOB_NOMAGIC) && !is_magic(pattern, strlen(pattern), flags));
    error = itself ? add(&search, pattern, 0) : GLOB_NOMATCH;
  }
  /* After GLOB_ABORTED the caller gets the paths found so far. */
  if (error == 0 || (error == GLOB_ABORTED && search.count > 0)) {
    int given = give(&search, result);
    if (given != 0) error = given;
  }
  for (size_t i = 0; i < search.count; i++) free(search.found[i]);
  free(search.found);
  return error;
}

void globfree(glob_t* result) {
  for (size_t i = 0; i < result->gl_pathc; i++) free(result->gl_pathv[result->gl_offs + i]);
  free(result->gl_pathv);
  result->gl_pathc = 0;
  result->gl_pathv = NULL;
}
