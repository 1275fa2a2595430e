/* Dynamic loading, which does not exist here: a program is one static file without a table of its
 * symbols. The calls fail in the way that POSIX gives them, so programs with optional plug-ins
 * link, run, and report why a plug-in cannot be loaded.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

/* What dlerror gives next; NULL after it was given. */
static __thread char* pending;
static __thread char message[128];

/* No handle was ever given out, so each one is wrong. */
static void fail(const char* format, const char* name) {
  snprintf(message, sizeof message, format, name);
  pending = message;
}

void* dlopen(const char* file, int mode) {
  (void)mode;
  fail("%s: cannot be loaded: programs are static on this system",
       file != NULL ? file : "the program itself");
  return NULL;
}

void* dlsym(void* handle, const char* name) {
  (void)handle;
  fail("%s: not found: static programs have no table of symbols", name);
  return NULL;
}

int dlclose(void* handle) {
  (void)handle;
  fail("%s: not a handle of dlopen", "dlclose");
  return -1;
}

char* dlerror(void) {
  char* result = pending;
  pending = NULL;
  return result;
}
