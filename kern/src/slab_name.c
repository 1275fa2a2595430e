/* Names of caches and arenas. */

#include <stdbool.h>

#include "slab.h"

/* True for "." and "..", which have a meaning in every directory. */
static bool is_dots(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

int kmem_is_name(const char* name) {
  if (!*name || is_dots(name)) return 0;
  for (const char* c = name; *c; c++)
    if (*c <= ' ' || *c > '~' || *c == '/') return 0;
  return 1;
}
