/* Hard links and symbolic links. */
#include <limits.h>

#include "filetest.h"

static int resolves_to(const char* path, const char* wanted) {
  char found[PATH_MAX];
  return realpath(path, found) != NULL && strcmp(found, wanted) == 0;
}

static void hard_links(void) {
  struct stat one, other;
  write_text("a", "text");
  CHECK(link("a", "b") == 0 && stat("a", &one) == 0 && stat("b", &other) == 0);
  CHECK(one.st_ino == other.st_ino && one.st_nlink == 2 && other.st_nlink == 2);
  CHECK(FAILS(link("a", "b"), EEXIST) && FAILS(link("none", "c"), ENOENT));
  CHECK(mkdir("dir", 0755) == 0 && FAILS(link("dir", "c"), EPERM) && link("b", "dir/c") == 0);
  CHECK(FAILS(link("a", "/proc/a"), EXDEV));
  /* A rename from one name of a file to another name of the same file keeps both names. */
  CHECK(rename("a", "b") == 0 && access("a", F_OK) == 0);
  write_text("dir/c", "more");
  CHECK(has_text("a", "more") && unlink("a") == 0 && has_text("b", "more"));
  int fd = open("b", O_RDONLY);
  CHECK(fstat(fd, &one) == 0 && one.st_nlink == 2 && rename("dir/c", "b") == 0);
  CHECK(unlink("dir/c") == 0 && unlink("b") == 0 && fstat(fd, &one) == 0);
  if (!on_host) CHECK(one.st_nlink == 0);
  close(fd);
  CHECK(rmdir("dir") == 0);
}

/* A directory's links are its name, its ".", and the ".." of each directory directly below it. */
static void links_of_directories(void) {
  struct stat one;
  CHECK(mkdir("dir", 0755) == 0 && stat("dir", &one) == 0 && one.st_nlink == 2);
  CHECK(mkdir("dir/a", 0755) == 0 && mkdir("dir/b", 0755) == 0 && mkdir("dir/b/c", 0755) == 0);
  write_text("dir/file", "text");
  CHECK(stat("dir", &one) == 0 && one.st_nlink == 4);
  CHECK(rename("dir/b/c", "dir/a") == 0 && stat("dir/b", &one) == 0 && one.st_nlink == 2);
  CHECK(rename("dir/a", "c") == 0 && rmdir("dir/b") == 0 && stat("dir", &one) == 0);
  CHECK(one.st_nlink == 2 && unlink("dir/file") == 0 && rmdir("dir") == 0 && rmdir("c") == 0);
  CHECK(stat("/usr", &one) == 0 && one.st_nlink == 4); /* /usr has the directories bin and man */
}

static void symbolic_links(void) {
  char here[PATH_MAX], path[2 * PATH_MAX], target[2 * PATH_MAX];
  struct stat one;
  CHECK(getcwd(here, sizeof here) == here);
  CHECK(mkdir("dir", 0755) == 0 && symlink("dir", "link") == 0);
  write_text("link/file", "text");
  CHECK(has_text("dir/file", "text") && FAILS(symlink("x", "link"), EEXIST));
  CHECK(lstat("link", &one) == 0 && S_ISLNK(one.st_mode) && one.st_size == 3);
  CHECK(lstat("link/", &one) == 0 && S_ISDIR(one.st_mode));
  CHECK(stat("link", &one) == 0 && S_ISDIR(one.st_mode));
  CHECK(readlink("link", target, sizeof target) == 3 && memcmp(target, "dir", 3) == 0);
  CHECK(readlink("link", target, 2) == 2 && FAILS(readlink("dir", target, 9), EINVAL));
  /* A target may be a path relative to the link's directory, an absolute path, or a path that
   * begins with a #device. The path may contain other links. */
  CHECK(symlink("../dir/file", "dir/up") == 0 && has_text("link/up", "text"));
  snprintf(path, sizeof path, "%s/link/up", here);
  CHECK(symlink(path, "absolute") == 0 && has_text("absolute", "text"));
  CHECK(symlink("/dev/null", "device") == 0 && stat("device", &one) == 0 && S_ISCHR(one.st_mode));
  CHECK(symlink("#null/zero", "hash") == 0 && stat("hash", &one) == 0 && S_ISCHR(one.st_mode));
  snprintf(target, sizeof target, "%s/dir/file", here);
  CHECK(resolves_to("absolute", target) && resolves_to("link/../link/./up", target));
  CHECK(chdir("link") == 0 && getcwd(path, sizeof path) == path &&
        strcmp(strrchr(path, '/'), "/dir") == 0);
  CHECK(chdir("..") == 0 && access("link", F_OK) == 0);
  CHECK(linkat(AT_FDCWD, "absolute", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW) == 0 &&
        lstat("followed", &one) == 0 && S_ISREG(one.st_mode));
  /* Calls that change a name act on the link, not on its target. */
  CHECK(FAILS(rmdir("link"), ENOTDIR) && FAILS(unlink("link/"), ENOTDIR));
  CHECK(rename("link", "link2") == 0 && FAILS(lstat("link", &one), ENOENT));
  CHECK(link("absolute", "hard") == 0 && lstat("hard", &one) == 0 && S_ISLNK(one.st_mode) &&
        one.st_nlink == 2);
  CHECK(unlink("link2") == 0 && has_text("dir/file", "text"));
  CHECK(FAILS(open("absolute", O_RDONLY | O_NOFOLLOW), ELOOP));
  /* Links to a missing target. */
  CHECK(symlink("new", "dir/dangling") == 0 && symlink("dir/dangling", "dangling") == 0);
  CHECK(FAILS(open("dangling", O_RDONLY), ENOENT));
  CHECK(FAILS(open("dangling", O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST));
  CHECK(FAILS(mkdir("dangling", 0755), EEXIST));
  write_text("dangling", "made");
  CHECK(has_text("dir/new", "made"));
  /* Links in a loop. */
  CHECK(symlink("loop2", "loop1") == 0 && symlink("loop1", "loop2") == 0);
  CHECK(FAILS(stat("loop1", &one), ELOOP) && FAILS(open("loop1", O_WRONLY | O_CREAT, 0644), ELOOP));
  for (int i = 0; i <= SYMLOOP_MAX; i++) {
    snprintf(path, sizeof path, "chain%d", i);
    snprintf(target, sizeof target, "chain%d", i + 1);
    symlink(target, path);
  }
  snprintf(path, sizeof path, "chain%d", SYMLOOP_MAX + 1);
  write_text(path, "end");
  CHECK(has_text("chain1", "end") && FAILS(open("chain0", O_RDONLY), ELOOP));
  for (int i = 0; i <= SYMLOOP_MAX + 1; i++) {
    snprintf(path, sizeof path, "chain%d", i);
    unlink(path);
  }
  static const char* const made[] = {"loop1",    "loop2",  "dangling", "dir/dangling",
                                     "dir/new",  "dir/up", "followed", "hard",
                                     "absolute", "device", "hash",     "dir/file"};
  int removed = 0;
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) removed += unlink(made[i]) == 0;
  CHECK(removed == sizeof made / sizeof *made && rmdir("dir") == 0);
}

void test_links(void) {
  hard_links();
  if (!on_host) links_of_directories();
  symbolic_links();
}
