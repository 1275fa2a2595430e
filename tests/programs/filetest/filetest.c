/* filetest FOLDER [host | search]: checks names, links, attributes, locks and FIFOs in FOLDER,
 * which must be empty. `host` says that FOLDER is a folder of the host (below /host). `search`
 * measures the search for deadlocks instead. Prints TAP on standard output. The status is 1 if a
 * check fails. */
#include "filetest.h"

int on_host;

void write_text(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ssize_t size = (ssize_t)strlen(text);
  if (fd < 0 || write(fd, text, (size_t)size) != size) CHECK(!"written");
  close(fd);
}

int has_text(const char* path, const char* text) {
  char found[200];
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  ssize_t size = read(fd, found, sizeof found);
  close(fd);
  return size == (ssize_t)strlen(text) && memcmp(found, text, (size_t)size) == 0;
}

void wait_until_asleep(pid_t child) {
  char path[40], stat[200];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
  for (;;) {
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, stat, sizeof stat - 1);
    close(fd);
    stat[size > 0 ? size : 0] = '\0';
    const char* state = strrchr(stat, ')');
    if (state != NULL && (state[2] == 'S' || state[2] == 'Z')) return;
    usleep(1000);
  }
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  if (argc < 2 || chdir(argv[1]) < 0) {
    fprintf(stderr, "usage: filetest FOLDER [host | search]\n");
    return 2;
  }
  on_host = argc > 2 && strcmp(argv[2], "host") == 0;
  if (argc > 2 && strcmp(argv[2], "search") == 0) return lock_search();
  umask(022);
  test_names();
  test_links();
  test_attributes();
  test_locks();
  test_fifos();
  return tap_end();
}
