/* Calls with a directory's descriptor, flags of open, reading directories. */
#include <dirent.h>
#include <limits.h>
#include <sys/statvfs.h>

#include "filetest.h"

static void at_calls(void) {
  struct stat one, other;
  CHECK(mkdir("dir", 0755) == 0);
  int dir = open("dir", O_RDONLY | O_DIRECTORY);
  CHECK(dir >= 0 && mkdirat(dir, "sub", 0755) == 0);
  int fd = openat(dir, "sub/file", O_RDWR | O_CREAT, 0644);
  CHECK(fd >= 0 && write(fd, "text", 4) == 4 && close(fd) == 0);
  CHECK(has_text("dir/sub/file", "text"));
  CHECK(fstatat(dir, "sub/file", &one, 0) == 0 && stat("dir/sub/file", &other) == 0 &&
        one.st_ino == other.st_ino && one.st_dev == other.st_dev);
  CHECK(fstatat(dir, "", &one, AT_EMPTY_PATH) == 0 && fstat(dir, &other) == 0 &&
        one.st_ino == other.st_ino);
  CHECK(FAILS(fstatat(dir, "", &one, 0), ENOENT));
  CHECK(FAILS(fstatat(dir, "sub", &one, 1 << 20), EINVAL));
  CHECK(FAILS(openat(999, "sub", O_RDONLY), EBADF));
  CHECK(openat(999, "/", O_RDONLY) >= 0); /* the path is absolute: the descriptor is not used */
  int file = open("dir/sub/file", O_RDONLY);
  CHECK(FAILS(openat(file, "x", O_RDONLY), ENOTDIR));
  /* The descriptor means the same directory even after the directory is renamed and another one
   * has its old name. */
  CHECK(rename("dir", "moved") == 0 && mkdir("dir", 0755) == 0);
  CHECK(faccessat(dir, "sub/file", R_OK, 0) == 0 && FAILS(access("dir/sub", F_OK), ENOENT));
  CHECK(renameat(dir, "sub/file", AT_FDCWD, "dir/file") == 0 && has_text("dir/file", "text"));
  CHECK(fchmodat(dir, "sub", 0700, 0) == 0 && stat("moved/sub", &one) == 0 &&
        (one.st_mode & 07777) == 0700);
  CHECK(FAILS(unlinkat(dir, "sub", 0), EISDIR) && unlinkat(dir, "sub", AT_REMOVEDIR) == 0);
  CHECK(fchdir(dir) == 0 && access("../moved", F_OK) == 0 && chdir("..") == 0);
  CHECK(unlink("dir/file") == 0 && rmdir("dir") == 0 && rmdir("moved") == 0);
  CHECK(FAILS(openat(dir, "x", O_WRONLY | O_CREAT, 0644), ENOENT)); /* the directory is removed */
  close(dir);
  close(file);
}

static void flags_of_open(void) {
  write_text("file", "0123456789");
  CHECK(FAILS(open("file", O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST));
  CHECK(FAILS(open("file", O_RDONLY | O_DIRECTORY), ENOTDIR));
  int fd = open("file", O_WRONLY | O_APPEND | O_SYNC), again = open("file", O_RDWR);
  CHECK(fd >= 0 && lseek(fd, 0, SEEK_SET) == 0 && write(fd, "ab", 2) == 2);
  CHECK(has_text("file", "0123456789ab"));
  CHECK((fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND));
  CHECK(ftruncate(again, 3) == 0 && ftruncate(again, 6) == 0);
  char bytes[8] = "xxxxxxx";
  CHECK(pread(again, bytes, 8, 0) == 6 && memcmp(bytes, "012\0\0\0", 6) == 0);
  CHECK(posix_fallocate(again, 0, 9000) == 0);
  struct stat now;
  CHECK(fstat(again, &now) == 0 && now.st_size == 9000 && now.st_blocks >= 9000 / 512);
  CHECK(pread(again, bytes, 4, 0) == 4 && memcmp(bytes, "012", 4) == 0);
  CHECK(posix_fallocate(again, -1, 5) == EINVAL);
  CHECK(fsync(again) == 0 && fdatasync(again) == 0);
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 && FAILS(fsync(ends[0]), EINVAL) &&
        FAILS(read(ends[0], bytes, 1), EAGAIN));
  CHECK(fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
  CHECK(dup3(again, ends[0], O_CLOEXEC) == ends[0] && fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
  CHECK(FAILS(dup3(again, again, 0), EINVAL) && FAILS(dup3(again, ends[0], 12345), EINVAL));
  int copy = fcntl(again, F_DUPFD_CLOEXEC, 40);
  CHECK(copy == 40 && fcntl(copy, F_GETFD) == FD_CLOEXEC);
  close(copy);
  close(ends[0]);
  close(ends[1]);
  close(fd);
  close(again);
  CHECK(unlink("file") == 0);
}

static void directories(void) {
  char name[20], seen[30][20];
  long places[30];
  int count = 0;
  CHECK(mkdir("many", 0755) == 0);
  for (int i = 0; i < 25; i++) {
    snprintf(name, sizeof name, "many/file%d", i);
    write_text(name, "");
  }
  CHECK(symlink("file1", "many/link") == 0);
  DIR* dir = opendir("many");
  int good_types = 1;
  for (struct dirent* entry; dir != NULL && count < 30; count++) {
    places[count] = telldir(dir);
    if ((entry = readdir(dir)) == NULL) break;
    strlcpy(seen[count], entry->d_name, sizeof seen[count]);
    int type = entry->d_name[0] == '.'              ? DT_DIR
               : strcmp(entry->d_name, "link") == 0 ? DT_LNK
                                                    : DT_REG;
    good_types &= entry->d_type == type;
  }
  CHECK(count == 28 && good_types);
  int good = 1;
  for (int i = count - 1; i >= 0; i -= 5) {
    seekdir(dir, places[i]);
    struct dirent* entry = readdir(dir);
    good &= entry != NULL && strcmp(entry->d_name, seen[i]) == 0;
  }
  CHECK(good);
  rewinddir(dir);
  CHECK(strcmp(readdir(dir)->d_name, ".") == 0);
  closedir(dir);
  CHECK(fdopendir(0) == NULL && errno == ENOTDIR);
  CHECK(unlink("many/link") == 0);
  for (int i = 0; i < 25; i++) {
    snprintf(name, sizeof name, "many/file%d", i);
    unlink(name);
  }
  CHECK(rmdir("many") == 0);
}

static void space(void) {
  struct statvfs before, after;
  CHECK(statvfs(".", &before) == 0 && before.f_blocks > 0 && before.f_bfree <= before.f_blocks &&
        before.f_namemax == 255);
  int fd = open("file", O_RDWR | O_CREAT, 0644);
  static char bytes[100 * 4096] = {1};
  CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes && fstatvfs(fd, &after) == 0);
  if (!on_host) CHECK(before.f_bfree - after.f_bfree >= 100);
  CHECK(statvfs("/bin/sh", &after) == 0 && (after.f_flag & ST_RDONLY));
  close(fd);
  CHECK(unlink("file") == 0 && pathconf(".", _PC_NAME_MAX) == 255 &&
        pathconf(".", _PC_PIPE_BUF) == 4096 && FAILS(pathconf("none", _PC_PATH_MAX), ENOENT));
}

void test_names(void) {
  at_calls();
  flags_of_open();
  directories();
  space();
}
