/* Owners, permissions and times. Some tests run as a user without rights. */
#include <sys/time.h>
#include <utime.h>

#include "filetest.h"

static void times(void) {
  struct stat now;
  write_text("file", "text");
  const struct timespec set[2] = {{.tv_sec = 1000000000, .tv_nsec = 123456789},
                                  {.tv_sec = 1100000000, .tv_nsec = 987654321}};
  CHECK(utimensat(AT_FDCWD, "file", set, 0) == 0 && stat("file", &now) == 0);
  CHECK(now.st_atim.tv_sec == 1000000000 && now.st_atim.tv_nsec == 123456789);
  CHECK(now.st_mtim.tv_sec == 1100000000 && now.st_mtim.tv_nsec == 987654321);
  CHECK(now.st_ctim.tv_sec > 1200000000);
  int fd = open("file", O_RDWR);
  const struct timespec part[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
  CHECK(futimens(fd, part) == 0 && fstat(fd, &now) == 0);
  CHECK(now.st_atim.tv_sec == 1000000000 && now.st_mtim.tv_sec > 1200000000);
  const struct timespec wrong[2] = {{.tv_nsec = 1000000000}, {.tv_nsec = 0}};
  CHECK(FAILS(futimens(fd, wrong), EINVAL));
  const struct utimbuf old = {.actime = 5, .modtime = 6};
  CHECK(utime("file", &old) == 0 && stat("file", &now) == 0 && now.st_atim.tv_sec == 5 &&
        now.st_mtim.tv_sec == 6 && now.st_mtim.tv_nsec == 0);
  const struct timeval micro[2] = {{.tv_sec = 7, .tv_usec = 8}, {.tv_sec = 9, .tv_usec = 10}};
  CHECK(utimes("file", micro) == 0 && stat("file", &now) == 0 && now.st_atim.tv_nsec == 8000);
  CHECK(write(fd, "more", 4) == 4 && fstat(fd, &now) == 0 && now.st_mtim.tv_sec > 1200000000);
  CHECK(symlink("file", "link") == 0 && utimensat(AT_FDCWD, "link", set, AT_SYMLINK_NOFOLLOW) == 0);
  CHECK(lstat("link", &now) == 0 && now.st_mtim.tv_sec == 1100000000);
  CHECK(stat("link", &now) == 0 && now.st_mtim.tv_sec != 1100000000);
  close(fd);
  CHECK(unlink("link") == 0 && unlink("file") == 0);
}

static void modes(void) {
  struct stat now;
  write_text("file", "text");
  int fd = open("file", O_RDONLY);
  CHECK(fchmod(fd, 0640) == 0 && fstat(fd, &now) == 0 && (now.st_mode & 07777) == 0640);
  CHECK(FAILS(fchmodat(AT_FDCWD, "file", 0600, AT_EACCESS), EINVAL));
  CHECK(fchown(fd, -1, -1) == 0);
  close(fd);
  if (on_host)
    CHECK(chmod("file", 04755) == 0 && stat("file", &now) == 0 && !(now.st_mode & 04000));
  CHECK(unlink("file") == 0);
}

/* Runs as NOBODY in a folder that everybody may write to and that has the sticky bit. Root owns the
 * files "roots" and "writable". NOBODY owns the file "his". */
static int without_rights(void* argument) {
  (void)argument;
  struct stat now;
  const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
  if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0) return 1;
  if (!FAILS(chmod("roots", 0777), EPERM)) return 2;
  if (!FAILS(chown("his", 0, -1), EPERM) || !FAILS(chown("his", -1, 0), EPERM)) return 3;
  if (chown("his", NOBODY, NOBODY) != 0) return 4;
  if (!FAILS(utimensat(AT_FDCWD, "roots", old, 0), EPERM)) return 5;
  if (!FAILS(utimensat(AT_FDCWD, "roots", NULL, 0), EACCES)) return 6;
  if (utimensat(AT_FDCWD, "writable", NULL, 0) != 0) return 7;
  if (utimensat(AT_FDCWD, "his", old, 0) != 0) return 8;
  /* A write or truncate by NOBODY clears set-user-id and set-group-id. */
  if (chmod("his", 06755) != 0 || stat("his", &now) != 0 || (now.st_mode & 07777) != 06755)
    return 9;
  int fd = open("his", O_WRONLY);
  if (write(fd, "x", 1) != 1 || stat("his", &now) != 0 || (now.st_mode & 07777) != 0755) return 10;
  close(fd);
  if (chmod("his", 04755) != 0 || truncate("his", 0) != 0 || stat("his", &now) != 0 ||
      (now.st_mode & 07777) != 0755)
    return 11;
  /* Because of the folder's sticky bit, NOBODY cannot remove, rename or replace files of other
   * users. */
  if (!FAILS(unlink("roots"), EPERM) || !FAILS(rename("roots", "x"), EPERM)) return 12;
  if (!FAILS(rename("his", "roots"), EPERM)) return 13;
  if (symlink("x", "link") != 0 || unlink("link") != 0) return 14;
  if (!FAILS(faccessat(AT_FDCWD, "roots", W_OK, AT_EACCESS), EACCES)) return 15;
  return 0;
}

static void users(void) {
  struct stat now;
  if (on_host) return; /* the host checks the rights of the user who runs the emulator */
  CHECK(mkdir("open", 0777) == 0 && chmod("open", 01777) == 0 && chdir("open") == 0);
  write_text("roots", "text");
  write_text("writable", "text");
  write_text("his", "text");
  CHECK(chmod("writable", 0666) == 0 && chown("his", NOBODY, NOBODY) == 0);
  CHECK(stat("his", &now) == 0 && now.st_uid == NOBODY && now.st_gid == NOBODY);
  /* Root's chown clears set-user-id and set-group-id, too. */
  CHECK(chmod("roots", 06755) == 0 && chown("roots", 0, 0) == 0 && stat("roots", &now) == 0 &&
        (now.st_mode & 07777) == 0755 && chmod("roots", 0644) == 0);
  CHECK(exit_code_of(start_child_with(without_rights, NULL)) == 0);
  CHECK(symlink("his", "link") == 0 && lchown("link", 5, 6) == 0 && lstat("link", &now) == 0 &&
        now.st_uid == 5 && now.st_gid == 6);
  CHECK(stat("link", &now) == 0 && now.st_uid == NOBODY);
  CHECK(FAILS(chown("/bin/sh", 1, 1), EROFS) && FAILS(chmod("/dev/null", 0), EPERM));
  /* In a directory with set-group-id, a new directory gets the parent's group and set-group-id. */
  CHECK(mkdir("group", 0755) == 0 && chown("group", 0, 77) == 0 && chmod("group", 02755) == 0);
  CHECK(mkdir("group/sub", 0755) == 0 && stat("group/sub", &now) == 0 && now.st_gid == 77 &&
        (now.st_mode & S_ISGID));
  CHECK(rmdir("group/sub") == 0 && rmdir("group") == 0);
  CHECK(unlink("link") == 0 && unlink("roots") == 0 && unlink("his") == 0 &&
        unlink("writable") == 0);
  CHECK(chdir("..") == 0 && rmdir("open") == 0);
}

void test_attributes(void) {
  times();
  modes();
  users();
}
