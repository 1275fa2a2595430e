/* The users that this system has: root, and nobody for what shall have no rights. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static struct passwd users[] = {
    {"root", "x", 0, 0, "", "root", "/home", "/bin/sh"},
    {"nobody", "x", 65534, 65534, "", "nobody", "/", "/bin/sh"},
};

static char* no_members[] = {NULL};
static struct group groups[] = {
    {"root", "x", 0, no_members},
    {"nobody", "x", 65534, no_members},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
static size_t next_user, next_group;

struct passwd* getpwuid(uid_t uid) {
  for (size_t i = 0; i < COUNT(users); i++) {
    if (users[i].pw_uid == uid) return &users[i];
  }
  return NULL;
}
struct passwd* getpwnam(const char* name) {
  for (size_t i = 0; i < COUNT(users); i++) {
    if (strcmp(users[i].pw_name, name) == 0) return &users[i];
  }
  return NULL;
}
struct passwd* getpwent(void) {
  return next_user < COUNT(users) ? &users[next_user++] : NULL;
}
void setpwent(void) {
  next_user = 0;
}
void endpwent(void) {
  next_user = 0;
}

struct group* getgrgid(gid_t gid) {
  for (size_t i = 0; i < COUNT(groups); i++) {
    if (groups[i].gr_gid == gid) return &groups[i];
  }
  return NULL;
}
struct group* getgrnam(const char* name) {
  for (size_t i = 0; i < COUNT(groups); i++) {
    if (strcmp(groups[i].gr_name, name) == 0) return &groups[i];
  }
  return NULL;
}
struct group* getgrent(void) {
  return next_group < COUNT(groups) ? &groups[next_group++] : NULL;
}
void setgrent(void) {
  next_group = 0;
}
void endgrent(void) {
  next_group = 0;
}

/* Nothing of an entry ever changes, so the caller's buffer is not needed. */
static int user_result(const struct passwd* found, struct passwd* user, struct passwd** result) {
  *result = NULL;
  if (found != NULL) *user = *found, *result = user;
  return 0;
}
int getpwnam_r(const char* name, struct passwd* user, char* buffer, size_t size,
               struct passwd** result) {
  (void)buffer, (void)size;
  return user_result(getpwnam(name), user, result);
}
int getpwuid_r(uid_t uid, struct passwd* user, char* buffer, size_t size, struct passwd** result) {
  (void)buffer, (void)size;
  return user_result(getpwuid(uid), user, result);
}

static int group_result(const struct group* found, struct group* group, struct group** result) {
  *result = NULL;
  if (found != NULL) *group = *found, *result = group;
  return 0;
}
int getgrnam_r(const char* name, struct group* group, char* buffer, size_t size,
               struct group** result) {
  (void)buffer, (void)size;
  return group_result(getgrnam(name), group, result);
}
int getgrgid_r(gid_t gid, struct group* group, char* buffer, size_t size, struct group** result) {
  (void)buffer, (void)size;
  return group_result(getgrgid(gid), group, result);
}

int getgrouplist(const char* user, gid_t group, gid_t* list, int* count) {
  (void)user;
  int room = *count;
  *count = 1;
  if (room < 1) return -1;
  list[0] = group;
  return 1;
}

char* getlogin(void) {
  struct passwd* user = getpwuid(getuid());
  return user != NULL ? user->pw_name : NULL;
}
