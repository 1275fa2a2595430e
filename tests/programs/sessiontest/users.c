/* Users and groups: the ids and rights of a process, and the system's data about users. */
#include <grp.h>
#include <limits.h>
#include <pwd.h>

#include "sessiontest.h"

static int ids_are(uid_t real, uid_t effective, uid_t saved) {
  uid_t r, e, s;
  return getresuid(&r, &e, &s) == 0 && r == real && e == effective && s == saved &&
         getuid() == real && geteuid() == effective;
}
static int gids_are(gid_t real, gid_t effective, gid_t saved) {
  gid_t r, e, s;
  return getresgid(&r, &e, &s) == 0 && r == real && e == effective && s == saved &&
         getgid() == real && getegid() == effective;
}

static int changes_ids(void) {
  EXPECT(ids_are(0, 0, 0) && gids_are(0, 0, 0));
  EXPECT(setresgid(1, 2, 3) == 0 && gids_are(1, 2, 3));
  EXPECT(setresuid(-1, 7, -1) == 0 && ids_are(0, 7, 0));
  /* The effective user is not root any more; the real and the saved user still are. */
  EXPECT(setuid(8) == -1 && errno == EPERM && setresuid(8, -1, -1) == -1 && errno == EPERM);
  EXPECT(seteuid(0) == 0 && ids_are(0, 0, 0));
  EXPECT(setreuid(5, 6) == 0 && ids_are(5, 6, 6));
  EXPECT(setreuid(6, 5) == 0 && ids_are(6, 5, 5));
  EXPECT(setreuid(-1, 6) == 0 &&
         ids_are(6, 6, 5)); /* the new effective user is the real one, so the saved user stays */
  EXPECT(seteuid(5) == 0 && setuid(6) == 0 && ids_are(6, 6, 5));
  EXPECT(setresuid(5, 7, -1) == -1 && errno == EPERM && ids_are(6, 6, 5));
  EXPECT(setuid(0) == -1 && errno == EPERM && setuid(-1) == -1 && errno == EINVAL);
  EXPECT(setgid(3) == 0 && gids_are(1, 3, 3) && setregid(3, 1) == 0 && gids_are(3, 1, 1));
  EXPECT(setgid(2) == -1 && errno == EPERM);
  gid_t group = 0;
  EXPECT(setgroups(1, &group) == -1 && errno == EPERM);
  return 0;
}

static int signals_a_user(void) {
  /* Process A may signal process B if the real or effective user of A is the real or saved user of
   * B. */
  pid_t parent = getppid();
  EXPECT(setresuid(USER, OTHER, OTHER) == 0 && kill(parent, 0) == -1 && errno == EPERM);
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(1);
  }
  EXPECT(setresuid(OTHER, OTHER, OTHER) == 0 && kill(child, SIGTERM) == 0);
  int status;
  EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  return 0;
}

void test_ids(void) {
  EXPECT(in_child(changes_ids) == 0);
  EXPECT(in_child(signals_a_user) == 0);
}

#define FILE_OF_GROUP "/tmp/sessiontest.group"

static int has_groups(void) {
  gid_t groups[NGROUPS_MAX + 1], want[] = {100, 5, 7};
  EXPECT(getgroups(0, NULL) == 0);
  EXPECT(setgroups(3, want) == 0 && getgroups(0, NULL) == 3);
  EXPECT(getgroups(NGROUPS_MAX, groups) == 3 && memcmp(groups, want, sizeof want) == 0);
  EXPECT(getgroups(2, groups) == -1 && errno == EINVAL);
  EXPECT(getgroups(-1, groups) == -1 && errno == EINVAL);
  EXPECT(setgroups(NGROUPS_MAX + 1, groups) == -1 && errno == EINVAL);
  EXPECT(setgroups(1, (gid_t*)16) == -1 && errno == EFAULT && getgroups(0, NULL) == 3);
  /* The file belongs to group 7. Only root and members of group 7 may read the file. */
  EXPECT(setgid(USER) == 0 && setuid(USER) == 0);
  int fd = open(FILE_OF_GROUP, O_RDONLY);
  EXPECT(fd >= 0);
  EXPECT(open(FILE_OF_GROUP, O_RDWR) == -1 && errno == EACCES);
  pid_t child = fork();
  if (child == 0) _exit(getgroups(0, NULL) == 3 && open(FILE_OF_GROUP, O_RDONLY) >= 0 ? 0 : 1);
  EXPECT(exit_code_of(child) == 0);
  return 0;
}

static int has_no_groups(void) {
  become(USER);
  EXPECT(open(FILE_OF_GROUP, O_RDONLY) == -1 && errno == EACCES);
  EXPECT(access(FILE_OF_GROUP, R_OK) == -1 && errno == EACCES);
  EXPECT(open("#cons/power", O_WRONLY) == -1 && errno == EACCES);
  return 0;
}

static int makes_file_of_group(void) {
  umask(0);
  if (setegid(7) < 0) return 1;
  return open(FILE_OF_GROUP, O_WRONLY | O_CREAT | O_TRUNC, 0640) < 0;
}

static int asks_for_its_starter(void) {
  /* access() checks the rights of the real user. open() checks the rights of the effective user. */
  EXPECT(setresuid(USER, 0, 0) == 0);
  EXPECT(access(FILE_OF_GROUP, R_OK) == -1 && errno == EACCES);
  EXPECT(open(FILE_OF_GROUP, O_RDONLY) >= 0);
  return 0;
}

static int takes_groups_of_user(void) {
  gid_t groups[NGROUPS_MAX];
  EXPECT(initgroups("user", USER) == 0 && getgroups(NGROUPS_MAX, groups) == 2);
  EXPECT(groups[0] == USER && groups[1] == 100);
  return 0;
}

void test_groups(void) {
  EXPECT(in_child(makes_file_of_group) == 0);
  EXPECT(in_child(has_groups) == 0);
  EXPECT(in_child(has_no_groups) == 0);
  EXPECT(in_child(asks_for_its_starter) == 0);
  EXPECT(in_child(takes_groups_of_user) == 0);
  unlink(FILE_OF_GROUP);
}

#define PROGRAM "/tmp/sessiontest.program"
#define SCRIPT "/tmp/sessiontest.script"

/* helper ids: prints the real/effective/saved user and group, and the result of issetugid(). */
int helper(int argc, char** argv) {
  uid_t uid[3];
  gid_t gid[3];
  if (argc < 3 || strcmp(argv[2], "ids") != 0) return 1;
  if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || getresgid(&gid[0], &gid[1], &gid[2]) < 0)
    return 1;
  printf("%u/%u/%u %u/%u/%u %d\n", uid[0], uid[1], uid[2], gid[0], gid[1], gid[2], issetugid());
  return 0;
}

static void copy_program(const char* to) {
  char command[128];
  snprintf(command, sizeof command, "cp /bin/sessiontest %s", to);
  EXPECT(system(command) == 0);
}

/* The output of `path helper ids` when USER starts it. */
static const char* ids_of(const char* path) {
  static char text[128];
  int ends[2];
  memset(text, 0, sizeof text);
  EXPECT(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    become(USER);
    execl(path, path, "helper", "ids", NULL);
    _exit(errno);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
    length += (size_t)got;
  close(ends[0]);
  EXPECT(exit_code_of(child) == 0);
  return text;
}

void test_set_id(void) {
  copy_program(PROGRAM);
  EXPECT(chmod(PROGRAM, 0755) == 0);
  EXPECT(strcmp(ids_of(PROGRAM), "1000/1000/1000 1000/1000/1000 0\n") == 0);
  EXPECT(chmod(PROGRAM, 04755) == 0);
  EXPECT(strcmp(ids_of(PROGRAM), "1000/0/0 1000/1000/1000 1\n") == 0);
  EXPECT(chmod(PROGRAM, 02755) == 0);
  EXPECT(strcmp(ids_of(PROGRAM), "1000/1000/1000 1000/0/0 1\n") == 0);
  EXPECT(chmod(PROGRAM, 02745) == 0); /* the group may not execute the program */
  EXPECT(strcmp(ids_of(PROGRAM), "1000/1000/1000 1000/1000/1000 0\n") == 0);
  EXPECT(chmod(PROGRAM, 06755) == 0);
  EXPECT(strcmp(ids_of(PROGRAM), "1000/0/0 1000/0/0 1\n") == 0);

  FILE* script = fopen(SCRIPT, "w");
  EXPECT(script != NULL && fprintf(script, "#!/bin/sh\nexec /bin/sessiontest helper ids\n") > 0);
  if (script != NULL) fclose(script);
  EXPECT(chmod(SCRIPT, 06755) == 0);
  EXPECT(strcmp(ids_of(SCRIPT), "1000/1000/1000 1000/1000/1000 0\n") == 0);
  unlink(PROGRAM);
  unlink(SCRIPT);
}

void test_database(void) {
  struct passwd* user = getpwnam("user");
  EXPECT(user != NULL && user->pw_uid == USER && user->pw_gid == USER);
  EXPECT(user != NULL && strcmp(user->pw_dir, "/tmp") == 0 &&
         strcmp(user->pw_shell, "/bin/sh") == 0);
  user = getpwuid(OTHER);
  EXPECT(user != NULL && strcmp(user->pw_name, "nobody") == 0);
  EXPECT(getpwnam("use") == NULL && getpwuid(77) == NULL);
  int count = 0, seen = 0;
  for (setpwent(); (user = getpwent()) != NULL; count++) seen += strcmp(user->pw_name, "user") == 0;
  EXPECT(count >= 4 && seen == 1 && getpwent() == NULL);
  setpwent();
  EXPECT((user = getpwent()) != NULL && strcmp(user->pw_name, "root") == 0);
  endpwent();

  struct group* group = getgrnam("users");
  EXPECT(group != NULL && group->gr_gid == 100 && group->gr_mem[0] != NULL);
  EXPECT(group != NULL && strcmp(group->gr_mem[0], "user") == 0 && group->gr_mem[1] == NULL);
  group = getgrgid(0);
  EXPECT(group != NULL && strcmp(group->gr_name, "root") == 0 && group->gr_mem[0] == NULL);
  EXPECT(getgrnam("nosuch") == NULL);
  for (count = 0, setgrent(); getgrent() != NULL; count++) continue;
  EXPECT(count >= 4);
  endgrent();

  struct passwd entry, *found;
  struct group group_entry, *found_group;
  char text[256];
  EXPECT(getpwnam_r("user", &entry, text, sizeof text, &found) == 0 && found == &entry &&
         entry.pw_name >= text && entry.pw_name < text + sizeof text);
  EXPECT(getpwnam_r("user", &entry, text, 8, &found) == ERANGE && found == NULL);
  EXPECT(getpwuid_r(77, &entry, text, sizeof text, &found) == 0 && found == NULL);
  EXPECT(getgrnam_r("users", &group_entry, text, sizeof text, &found_group) == 0 &&
         found_group == &group_entry && strcmp(group_entry.gr_mem[0], "user") == 0);
  EXPECT(getgrgid_r(100, &group_entry, text, 17, &found_group) == ERANGE && found_group == NULL);
  /* With each size of the buffer, getgrnam_r returns either an error or the entry, and writes
   * nothing beyond the buffer. */
  for (size_t size = 0; size < sizeof text; size++) {
    memset(text, 'x', sizeof text);
    int error = getgrnam_r("users", &group_entry, text, size, &found_group);
    EXPECT(error == (found_group != NULL ? 0 : ERANGE));
    EXPECT(size == sizeof text || text[size] == 'x');
  }
  int groups = 0;
  gid_t list[4];
  EXPECT(getgrouplist("user", USER, list, &groups) == -1 && groups == 2);
  EXPECT(getgrouplist("user", USER, list, &groups) == 2 && list[1] == 100);
  EXPECT(getlogin() != NULL && strcmp(getlogin(), "root") == 0);
}
