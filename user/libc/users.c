/* The users and groups of /etc/passwd and /etc/group. Each lookup reads the file from its
 * beginning, so that changes take effect at once. musl has most functions (musl.mk); those here
 * also ask a server in musl. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS "/etc/group"

/* musl's functions, which read the next entry. The line, and the array of a group's members, are in
 * memory of malloc, which grows and moves. At the end of the file, `*found` is NULL. */
int __getpwent_a(FILE* file, struct passwd* user, char** line, size_t* size, struct passwd** found);
int __getgrent_a(FILE* file, struct group* group, char** line, size_t* size, char*** members,
                 size_t* count, struct group** found);

/* Searches by name, or by number if `name` is NULL. If there is no such user, returns 0 and sets
 * `*found` to NULL. Returns an error number if the file cannot be read. */
int __getpw_a(const char* name, uid_t uid, struct passwd* user, char** line, size_t* size,
              struct passwd** found) {
  *found = NULL;
  FILE* file = fopen("/etc/passwd", "re");
  if (file == NULL) return errno;
  int error;
  while ((error = __getpwent_a(file, user, line, size, found)) == 0 && *found != NULL) {
    if (name != NULL ? strcmp(user->pw_name, name) == 0 : user->pw_uid == uid) break;
  }
  fclose(file);
  return error;
}
int __getgr_a(const char* name, gid_t gid, struct group* group, char** line, size_t* size,
              char*** members, size_t* count, struct group** found) {
  *found = NULL;
  FILE* file = fopen(GROUPS, "re");
  if (file == NULL) return errno;
  int error;
  while ((error = __getgrent_a(file, group, line, size, members, count, found)) == 0 &&
         *found != NULL) {
    if (name != NULL ? strcmp(group->gr_name, name) == 0 : group->gr_gid == gid) break;
  }
  fclose(file);
  return error;
}

/* Lists the group `first` and all groups with `name` among their members. The caller sets `*count`
 * to the number of entries that `list` has room for. The function sets `*count` to the number of
 * groups that it found, and returns this number. If there is not enough room, it returns -1. */
int getgrouplist(const char* name, gid_t first, gid_t* list, int* count) {
  int room = *count, found = 0;
  if (found < room) list[found] = first;
  found++;
  FILE* file = fopen(GROUPS, "re");
  struct group group, *next;
  char *line = NULL, **members = NULL;
  size_t size = 0, member_count = 0;
  while (file != NULL &&
         __getgrent_a(file, &group, &line, &size, &members, &member_count, &next) == 0 &&
         next != NULL) {
    char** member = members;
    while (*member != NULL && strcmp(*member, name) != 0) member++;
    if (*member == NULL || group.gr_gid == first) continue;
    if (found < room) list[found] = group.gr_gid;
    found++;
  }
  free(line);
  free(members);
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
  char text[1024];
  int error = getpwuid_r(getuid(), &entry, text, sizeof text, &found);
  if (error != 0) return error;
  if (found == NULL) return ENXIO;
  return strlcpy(name, found->pw_name, size) < size ? 0 : ERANGE;
}
