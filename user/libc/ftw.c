/* Walks through a file tree.
 *
 * The walk reads all names of a directory, closes the directory, and only then visits its files. So
 * the walk has at most one directory open at any depth, and needs no limit of descriptors: the
 * caller's limit is ignored. With FTW_CHDIR the walk uses one more descriptor for each level, to
 * return to the directory above. A walk that follows links records device and inode of each
 * directory that it enters, and enters no directory twice, so that it ends even if links form a
 * cycle.
 *
 * musl's nftw has no FTW_CHDIR, and leaves out directories deeper than the limit of descriptors.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct directory {
  dev_t device;
  ino_t inode;
};

struct walk {
  int (*call)(const char*, const struct stat*, int, struct FTW*);
  int (*old_call)(const char*, const struct stat*,
                  int); /* the callback of ftw; then `call` is NULL */
  int flags;
  dev_t device;  /* device of the first path, for FTW_MOUNT */
  void* entered; /* tree of the directories entered; unused with FTW_PHYS */
  char* path;
  size_t room; /* bytes allocated for `path` */
};

static int compare(const void* a, const void* b) {
  const struct directory *x = a, *y = b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Returns 1 if the walk enters this directory for the first time, otherwise 0; -1 if out of
 * memory. */
static int first_time(struct walk* walk, const struct stat* status) {
  if (walk->flags & FTW_PHYS) return 1;
  struct directory* directory = malloc(sizeof *directory);
  if (directory == NULL) return -1;
  *directory = (struct directory){.device = status->st_dev, .inode = status->st_ino};
  struct directory** place = tsearch(directory, &walk->entered, compare);
  if (place != NULL && *place == directory) return 1;
  free(directory);
  return place == NULL ? -1 : 0;
}

/* The names of a directory, one after the other, each with its NUL; an empty name ends them. */
struct names {
  char* bytes;
  size_t used, room;
};

static int append(struct names* names, const char* name) {
  size_t size = strlen(name) + 1;
  if (names->used + size + 1 > names->room) {
    size_t room = 2 * names->room + size + 256;
    char* grown = realloc(names->bytes, room);
    if (grown == NULL) return -1;
    names->bytes = grown;
    names->room = room;
  }
  memcpy(names->bytes + names->used, name, size);
  names->used += size;
  names->bytes[names->used] = '\0';
  return 0;
}

/* Reads all names of the open directory, and closes it. Returns 0, or -1 with errno. */
static int read_names(DIR* directory, struct names* names) {
  int error = 0;
  for (;;) {
    errno = 0;
    const struct dirent* entry = readdir(directory);
    if (entry == NULL) {
      error = errno;
      break;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (append(names, entry->d_name) < 0) {
      error = ENOMEM;
      break;
    }
  }
  closedir(directory);
  errno = error;
  return error == 0 ? 0 : -1;
}

static int report(const struct walk* walk, const struct stat* status, int type, int base,
                  int level) {
  struct FTW where = {.base = base, .level = level};
  if (walk->call != NULL) return walk->call(walk->path, status, type, &where);
  /* ftw has no FTW_SLN: it reports a dangling link as FTW_NS. */
  return walk->old_call(walk->path, status, type == FTW_SLN ? FTW_NS : type);
}

/* Replaces the path after its first `length` bytes by "/name". Returns -1 if out of memory. */
static int go_down(struct walk* walk, size_t length, const char* name) {
  size_t needed = length + strlen(name) + 2;
  if (needed > walk->room) {
    char* grown = realloc(walk->path, 2 * needed);
    if (grown == NULL) return -1;
    walk->path = grown;
    walk->room = 2 * needed;
  }
  if (length > 0 && walk->path[length - 1] == '/') length--;
  walk->path[length] = '/';
  strcpy(walk->path + length + 1, name);
  return 0;
}

static int visit(struct walk* walk, const char* name, int base, int level);

/* Visits the files `names` of the directory at walk->path, which is `name` relative to the current
 * directory. Frees the names. */
static int visit_all(struct walk* walk, const char* name, struct names* names, int level) {
  int result = 0, back = -1;
  size_t length = strlen(walk->path);
  if (walk->flags & FTW_CHDIR) {
    back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (back < 0 || chdir(name) < 0) result = -1;
  }
  for (const char* next = names->bytes; result == 0 && next != NULL && *next != '\0';
       next += strlen(next) + 1) {
    result = go_down(walk, length, next);
    if (result != 0) break;
    int base = (int)(strrchr(walk->path, '/') - walk->path) + 1;
    result = visit(walk, walk->flags & FTW_CHDIR ? next : walk->path, base, level + 1);
    walk->path[length] = '\0';
  }
  if (back >= 0) {
    if (fchdir(back) < 0 && result == 0) result = -1;
    close(back);
  }
  free(names->bytes);
  return result;
}

/* Visits the file at walk->path, which is `name` relative to the current directory. */
static int visit(struct walk* walk, const char* name, int base, int level) {
  struct stat status;
  int type = FTW_F;
  if ((walk->flags & FTW_PHYS ? lstat : stat)(name, &status) < 0) {
    if (errno == ENOMEM) return -1;
    if (level == 0 && !(errno == ENOENT && lstat(name, &status) == 0)) return -1;
    type = lstat(name, &status) == 0 && S_ISLNK(status.st_mode) ? FTW_SLN : FTW_NS;
    if (type == FTW_NS) memset(&status, 0, sizeof status);
    return report(walk, &status, type, base, level);
  }
  if (level == 0) walk->device = status.st_dev;
  if ((walk->flags & FTW_MOUNT) && status.st_dev != walk->device) return 0;
  if (S_ISLNK(status.st_mode)) type = FTW_SL;
  if (!S_ISDIR(status.st_mode)) return report(walk, &status, type, base, level);

  int first = first_time(walk, &status);
  if (first <= 0) return first;
  DIR* directory = opendir(name);
  if (directory == NULL) {
    if (errno != EACCES) return -1;
    return report(walk, &status, FTW_DNR, base, level);
  }
  struct names names = {0};
  if (read_names(directory, &names) < 0) {
    free(names.bytes);
    return -1;
  }
  int result = 0;
  if (!(walk->flags & FTW_DEPTH)) result = report(walk, &status, FTW_D, base, level);
  if (result != 0) {
    free(names.bytes);
    return result;
  }
  result = visit_all(walk, name, &names, level);
  if (result == 0 && (walk->flags & FTW_DEPTH)) result = report(walk, &status, FTW_DP, base, level);
  return result;
}

static int begin(struct walk* walk, const char* path) {
  size_t length = strlen(path);
  if (length == 0) {
    errno = ENOENT;
    return -1;
  }
  walk->path = strdup(path);
  if (walk->path == NULL) return -1;
  walk->room = length + 1;
  while (length > 1 && walk->path[length - 1] == '/') walk->path[--length] = '\0';
  const char* slash = strrchr(walk->path, '/');
  int base = slash != NULL && slash[1] != '\0' ? (int)(slash + 1 - walk->path) : 0;
  char* name = strdup(walk->path); /* a copy: growing walk->path may move it */
  int result = name != NULL ? 0 : -1, back = -1;
  if (result == 0 && (walk->flags & FTW_CHDIR) && base > 0) {
    /* FTW_CHDIR holds for the first file, too: the callback runs in the file's directory. */
    back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name[base - 1] = '\0';
    if (back < 0 || chdir(base == 1 ? "/" : name) < 0) result = -1;
    if (result == 0) result = visit(walk, name + base, base, 0);
    if (back >= 0) {
      int error = errno;
      if (fchdir(back) < 0 && result == 0)
        result = -1;
      else
        errno = error;
      close(back);
    }
  } else if (result == 0) {
    result = visit(walk, name, base, 0);
  }
  tdestroy(walk->entered, free);
  free(name);
  free(walk->path);
  return result;
}

/* A cancelled thread would leak the walk's memory and its open directory. */
static int without_cancellation(struct walk* walk, const char* path) {
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  const int result = begin(walk, path);
  pthread_setcancelstate(cancel_state, NULL);
  return result;
}

int nftw(const char* path, int (*call)(const char*, const struct stat*, int, struct FTW*),
         int descriptors, int flags) {
  (void)descriptors;
  struct walk walk = {.call = call, .flags = flags};
  return without_cancellation(&walk, path);
}

int ftw(const char* path, int (*call)(const char*, const struct stat*, int), int descriptors) {
  (void)descriptors;
  struct walk walk = {.old_call = call};
  return without_cancellation(&walk, path);
}
