/* The directory and the environment in the forms of old and of careful programs. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* A program that runs with more rights than its caller trusts no variable. */
char* secure_getenv(const char* name) {
  return issetugid() ? NULL : getenv(name);
}

char* getwd(char* buffer) {
  return getcwd(buffer, PATH_MAX);
}

int clearenv(void) {
  static char* none[] = {NULL};
  environ = none;
  return 0;
}
