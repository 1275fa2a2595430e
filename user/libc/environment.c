/* getwd, and functions on the environment that newlib lacks. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* A program that has more rights than its caller must trust no variable. */
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
