/* The users and groups of /etc/passwd and /etc/group.
 *
 * Each lookup reads the file from its beginning and caches nothing, so that changes take effect at
 * once. An entry is one line. The text of the line, and for a group the array of pointers to its
 * members, are stored in the caller's buffer. Functions without a buffer parameter use the static
 * buffers `user` and `group`. Malformed lines are skipped. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USERS "/etc/passwd"
#define GROUPS "/etc/group"

/* Reads the next line into the buffer, without its newline. Returns 0, ENOENT after the last line,
 * ERANGE if the buffer is too small, or the error number of the failed read. */
static int next_line(FILE* file, char* buffer, size_t size) {
  if (size < 2) return ERANGE;
  if (size > INT32_MAX) size = INT32_MAX;
  errno = 0;
  if (fgets(buffer, (int)size, file) == NULL) return ferror(file) ? (errno ? errno : EIO) : ENOENT;
  char* end = strchr(buffer, '\n');
  if (end == NULL && !feof(file)) return ERANGE;
  if (end != NULL) *end = 0;
  return 0;
}

/* Cuts the line at its colons. Returns the number of fields, of which the first `room` are
 * stored. */
static size_t split(char* line, char** fields, size_t room) {
  size_t count = 0;
  while (line != NULL) {
    if (count < room) fields[count] = line;
    count++;
    if ((line = strchr(line, ':')) != NULL) *line++ = 0;
  }
  return count;
}

static int parse_id(const char* text, unsigned* id) {
  char* end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  *id = (unsigned)value;
  return *text >= '0' && *text <= '9' && *end == 0 && errno == 0 && value < UINT32_MAX;
}

static int next_user(FILE* file, struct passwd* user, char* buffer, size_t size) {
  for (;;) {
    int error = next_line(file, buffer, size);
    if (error != 0) return error;
    char* fields[7];
    if (split(buffer, fields, 7) != 7 || *fields[0] == 0) continue;
    if (!parse_id(fields[2], &user->pw_uid) || !parse_id(fields[3], &user->pw_gid)) continue;
    user->pw_name = fields[0];
    user->pw_passwd = fields[1];
    user->pw_comment = user->pw_gecos = fields[4];
    user->pw_dir = fields[5];
    user->pw_shell = fields[6];
    return 0;
  }
}

static int next_group(FILE* file, struct group* group, char* buffer, size_t size) {
  for (;;) {
    int error = next_line(file, buffer, size);
    if (error != 0) return error;
    size_t used = strlen(buffer) + 1;
    char* fields[4];
    if (split(buffer, fields, 4) != 4 || *fields[0] == 0) continue;
    if (!parse_id(fields[2], &group->gr_gid)) continue;
    group->gr_name = fields[0];
    group->gr_passwd = fields[1];
    /* The members' names stay in the line; the array of pointers to them follows the line. */
    used += -(uintptr_t)(buffer + used) % sizeof(char*);
    size_t room = used < size ? (size - used) / sizeof(char*) : 0;
    group->gr_mem = (char**)(buffer + used);
    size_t count = 0;
    for (char *rest = fields[3], *name; (name = strsep(&rest, ",")) != NULL;) {
      if (*name == 0) continue;
      if (count + 1 >= room) return ERANGE;
      group->gr_mem[count++] = name;
    }
    if (room == 0) return ERANGE;
    group->gr_mem[count] = NULL;
    return 0;
  }
}

/* Searches by name, or by number if `name` is NULL. If there is no such user, returns 0 and sets
 * `*result` to NULL. Returns an error number if the file cannot be read. */
static int find_user(const char* name, uid_t uid, struct passwd* user, char* buffer, size_t size,
                     struct passwd** result) {
  *result = NULL;
  FILE* file = fopen(USERS, "re");
  if (file == NULL) return errno;
  int error;
  while ((error = next_user(file, user, buffer, size)) == 0) {
    if (name != NULL ? strcmp(user->pw_name, name) != 0 : user->pw_uid != uid) continue;
    *result = user;
    break;
  }
  fclose(file);
  return error == ENOENT ? 0 : error;
}

static int find_group(const char* name, gid_t gid, struct group* group, char* buffer, size_t size,
                      struct group** result) {
  *result = NULL;
  FILE* file = fopen(GROUPS, "re");
  if (file == NULL) return errno;
  int error;
  while ((error = next_group(file, group, buffer, size)) == 0) {
    if (name != NULL ? strcmp(group->gr_name, name) != 0 : group->gr_gid != gid) continue;
    *result = group;
    break;
  }
  fclose(file);
  return error == ENOENT ? 0 : error;
}

int getpwnam_r(const char* name, struct passwd* user, char* buffer, size_t size,
               struct passwd** result) {
  return find_user(name, 0, user, buffer, size, result);
}
int getpwuid_r(uid_t uid, struct passwd* user, char* buffer, size_t size, struct passwd** result) {
  return find_user(NULL, uid, user, buffer, size, result);
}
int getgrnam_r(const char* name, struct group* group, char* buffer, size_t size,
               struct group** result) {
  return find_group(name, 0, group, buffer, size, result);
}
int getgrgid_r(gid_t gid, struct group* group, char* buffer, size_t size, struct group** result) {
  return find_group(NULL, gid, group, buffer, size, result);
}

/* The buffers of functions without a buffer parameter. */
static struct {
  struct passwd entry;
  char text[1024];
  FILE* file; /* stream of getpwent */
} user;
static struct {
  struct group entry;
  char text[4096];
  FILE* file; /* stream of getgrent */
} group;

static struct passwd* only_user(const char* name, uid_t uid) {
  struct passwd* found;
  int error = find_user(name, uid, &user.entry, user.text, sizeof user.text, &found);
  if (error != 0) errno = error;
  return found;
}
struct passwd* getpwnam(const char* name) {
  return only_user(name, 0);
}
struct passwd* getpwuid(uid_t uid) {
  return only_user(NULL, uid);
}

static struct group* only_group(const char* name, gid_t gid) {
  struct group* found;
  int error = find_group(name, gid, &group.entry, group.text, sizeof group.text, &found);
  if (error != 0) errno = error;
  return found;
}
struct group* getgrnam(const char* name) {
  return only_group(name, 0);
}
struct group* getgrgid(gid_t gid) {
  return only_group(NULL, gid);
}

struct passwd* getpwent(void) {
  if (user.file == NULL && (user.file = fopen(USERS, "re")) == NULL) return NULL;
  int error = next_user(user.file, &user.entry, user.text, sizeof user.text);
  if (error == 0) return &user.entry;
  if (error != ENOENT) errno = error;
  return NULL;
}
void endpwent(void) {
  if (user.file != NULL) fclose(user.file);
  user.file = NULL;
}
void setpwent(void) {
  endpwent();
}

struct group* getgrent(void) {
  if (group.file == NULL && (group.file = fopen(GROUPS, "re")) == NULL) return NULL;
  int error = next_group(group.file, &group.entry, group.text, sizeof group.text);
  if (error == 0) return &group.entry;
  if (error != ENOENT) errno = error;
  return NULL;
}
void endgrent(void) {
  if (group.file != NULL) fclose(group.file);
  group.file = NULL;
}
void setgrent(void) {
  endgrent();
}

/* Lists the group `first` and all groups with `name` among their members. The caller sets `*count`
 * to the number of entries that `list` has room for. The function sets `*count` to the number of
 * groups that it found, and returns this number. If there is not enough room, it returns -1. */
int getgrouplist(const char* name, gid_t first, gid_t* list, int* count) {
  int room = *count, found = 0;
  if (found < room) list[found] = first;
  found++;
  FILE* file = fopen(GROUPS, "re");
  struct group entry;
  char text[sizeof group.text];
  while (file != NULL && next_group(file, &entry, text, sizeof text) == 0) {
    if (entry.gr_gid == first) continue;
    for (char** member = entry.gr_mem; *member != NULL; member++) {
      if (strcmp(*member, name) != 0) continue;
      if (found < room) list[found] = entry.gr_gid;
      found++;
      break;
    }
  }
  if (file != NULL) fclose(file);
  *count = found;
  return found <= room ? found : -1;
}

/* Returns the name of the user who started the process, since there is no record of logins. */
char* getlogin(void) {
  static char name[64];
  int error = getlogin_r(name, sizeof name);
  if (error == 0) return name;
  errno = error;
  return NULL;
}
int getlogin_r(char* name, size_t size) {
  struct passwd entry, *found;
  char text[sizeof user.text];
  int error = getpwuid_r(getuid(), &entry, text, sizeof text, &found);
  if (error != 0) return error;
  if (found == NULL) return ENXIO;
  return strlcpy(name, found->pw_name, size) < size ? 0 : ERANGE;
}
