/* Dynamic loading does not exist: a program is one static file without a symbol table. The calls
 * fail as POSIX defines, so programs with optional plug-ins link, run, and report why they cannot
 * load a plug-in.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

/* The message that dlerror returns next; NULL if there was no failure since the last dlerror. */
static __thread char* pending;
static __thread char message[128];

/* Sets the message of dlerror. */
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
