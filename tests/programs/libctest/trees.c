/* Functions that walk directory trees (nftw, ftw) or match patterns (fnmatch, glob, wordexp). */
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wordexp.h>

#include "check.h"

#define FOLDER "/tmp/libctest-trees"

static char walked[512];

static void note(const char* name, int type, int level) {
  static const char letters[FTW_SLN + 1] = {[FTW_F] = 'F', [FTW_D] = 'D', [FTW_DP] = 'P'};
  size_t length = strlen(walked);
  snprintf(walked + length, sizeof walked - length, "%s:%c:%d ", name, letters[type], level);
}
static int note_new(const char* path, const struct stat* status, int type, struct FTW* where) {
  if (S_ISDIR(status->st_mode) != (type == FTW_D || type == FTW_DP)) return -2;
  note(path + where->base, type, where->level);
  return strcmp(path + where->base, "stop") == 0 ? 77 : 0;
}
static int note_old(const char* path, const struct stat* status, int type) {
  note(path + sizeof FOLDER - 1, type, status->st_size > 0);
  return 0;
}
static int in_place(const char* path, const struct stat* status, int type, struct FTW* where) {
  struct stat here;
  (void)type;
  return stat(path + where->base, &here) == 0 && here.st_ino == status->st_ino ? 0 : 1;
}

static void touch(const char* path) {
  close(open(path, O_WRONLY | O_CREAT, 0644));
}

static void walking(void) {
  char here[64] = "";
  mkdir(FOLDER "/a", 0755);
  mkdir(FOLDER "/a/b", 0755);
  touch(FOLDER "/a/b/c");
  walked[0] = '\0';
  CHECK(nftw(FOLDER, note_new, 1, FTW_PHYS) == 0);
  CHECK(strcmp(walked, "libctest-trees:D:0 a:D:1 b:D:2 c:F:3 ") == 0);
  walked[0] = '\0';
  CHECK(nftw(FOLDER "/a/", note_new, 1, FTW_PHYS | FTW_DEPTH) == 0);
  CHECK(strcmp(walked, "c:F:2 b:P:1 a:P:0 ") == 0);
  walked[0] = '\0';
  CHECK(ftw(FOLDER, note_old, 3) == 0 && strcmp(walked, ":D:0 /a:D:0 /a/b:D:0 /a/b/c:F:0 ") == 0);
  chdir("/");
  CHECK(nftw(FOLDER, in_place, 1, FTW_CHDIR) == 0 && getcwd(here, sizeof here) != NULL &&
        strcmp(here, "/") == 0);
  touch(FOLDER "/a/b/stop");
  CHECK(nftw(FOLDER, note_new, 1, 0) == 77);
  CHECK(nftw(FOLDER "/nosuch", note_new, 1, 0) == -1 && errno == ENOENT);
  CHECK(nftw("", note_new, 1, 0) == -1 && errno == ENOENT);
  unlink(FOLDER "/a/b/stop");
  unlink(FOLDER "/a/b/c");
  rmdir(FOLDER "/a/b");
  rmdir(FOLDER "/a");
}

static void patterns(void) {
  CHECK(fnmatch("*.[ch]", "x.c", 0) == 0 && fnmatch("*.[!ch]", "x.c", 0) == FNM_NOMATCH);
  CHECK(fnmatch("*", ".x", FNM_PERIOD) == FNM_NOMATCH && fnmatch("*", ".x", 0) == 0);
  CHECK(fnmatch("a*b", "a/b", FNM_PATHNAME) == FNM_NOMATCH && fnmatch("a*b", "a/b", 0) == 0);
  CHECK(fnmatch("[[:digit:]]\\*", "7*", 0) == 0 && fnmatch("[a-c]x", "bx", 0) == 0);
  CHECK(fnmatch("A", "a", FNM_CASEFOLD) == 0);

  touch(FOLDER "/b.c");
  touch(FOLDER "/a.c");
  touch(FOLDER "/.hidden.c");
  glob_t found;
  CHECK(glob(FOLDER "/*.c", 0, NULL, &found) == 0 && found.gl_pathc == 2 &&
        strcmp(found.gl_pathv[0], FOLDER "/a.c") == 0 && found.gl_pathv[2] == NULL);
  globfree(&found);
  CHECK(glob(FOLDER "/*.x", 0, NULL, &found) == GLOB_NOMATCH);
  mkdir(FOLDER "/c.c", 0755);
  symlink("c.c", FOLDER "/d.c");
  found.gl_offs = 1;
  CHECK(glob("/tmp/libctest-tree?/[!bd].c", GLOB_DOOFFS | GLOB_MARK, NULL, &found) == 0 &&
        found.gl_pathc == 2 && found.gl_pathv[0] == NULL &&
        strcmp(found.gl_pathv[2], FOLDER "/c.c/") == 0);
  CHECK(glob(FOLDER "/.[!.]*", GLOB_DOOFFS | GLOB_APPEND, NULL, &found) == 0 &&
        found.gl_pathc == 3 && strcmp(found.gl_pathv[3], FOLDER "/.hidden.c") == 0);
  globfree(&found);
  CHECK(glob(FOLDER "/*.c/.", 0, NULL, &found) == 0 && found.gl_pathc == 2);
  globfree(&found);
  CHECK(glob("\\[*", GLOB_NOCHECK | GLOB_NOESCAPE, NULL, &found) == 0 &&
        strcmp(found.gl_pathv[0], "\\[*") == 0);
  globfree(&found);
  setenv("HOME", FOLDER, 1);
  CHECK(glob("~/?.c", GLOB_TILDE, NULL, &found) == 0 && found.gl_pathc == 4);
  globfree(&found);
  CHECK(glob("~root", GLOB_TILDE, NULL, &found) == 0 && found.gl_pathv[0][0] == '/');
  globfree(&found);
  CHECK(glob("~nosuch/?", GLOB_TILDE, NULL, &found) == GLOB_NOMATCH);
  CHECK(glob("~nosuch/?", GLOB_TILDE | GLOB_NOCHECK, NULL, &found) == 0 &&
        strcmp(found.gl_pathv[0], "~nosuch/?") == 0);
  globfree(&found);
  unlink(FOLDER "/d.c");
  rmdir(FOLDER "/c.c");

  wordexp_t words;
  setenv("WORD", "one two", 1);
  CHECK(wordexp("a $WORD \"$WORD\" " FOLDER "/[ab].c", &words, 0) == 0 && words.we_wordc == 6);
  CHECK(words.we_wordc == 6 && strcmp(words.we_wordv[3], "one two") == 0 &&
        strcmp(words.we_wordv[4], FOLDER "/a.c") == 0);
  wordfree(&words);
  CHECK(wordexp("a | b", &words, 0) == WRDE_BADCHAR);
  static const char* const commands[] = {"$(echo x)",        "`echo x`",
                                         "$((`echo 1`))",    "$(($(echo 1)))",
                                         "$((echo x) )",     "$((echo x)&&(echo y))",
                                         "\"$((`echo 1`))\""};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    CHECK(wordexp(commands[i], &words, WRDE_NOCMD) == WRDE_CMDSUB);
  CHECK(wordexp("$(((1 + 2) * 3)) '`'", &words, WRDE_NOCMD) == 0 && words.we_wordc == 2 &&
        strcmp(words.we_wordv[0], "9") == 0 && strcmp(words.we_wordv[1], "`") == 0);
  wordfree(&words);
  unlink(FOLDER "/a.c");
  unlink(FOLDER "/b.c");
  unlink(FOLDER "/.hidden.c");
}

void trees(void) {
  mkdir(FOLDER, 0755);
  walking();
  patterns();
  CHECK(rmdir(FOLDER) == 0);
}
