/* The directory and the environment in the forms of old and of careful programs. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* A program that runs with more rights than its caller trusts no variable. */
char* secure_getenv(const char* name) {
  return issetugid() ? NULL : getenv(name);
}

char* canonicalize_file_name(const char* path) {
  return realpath(path, NULL);
}

char* get_current_dir_name(void) {
  return getcwd(NULL, 0);
}

char* getwd(char* buffer) {
  return getcwd(buffer, PATH_MAX);
}

int clearenv(void) {
  static char* none[] = {NULL};
  environ = none;
  return 0;
}
