/* Replaces newlib's strsep, which returns NULL for an empty last field. */
#include <string.h>

char* strsep(char** rest, const char* delimiters) {
  char* field = *rest;
  if (field == NULL) return NULL;
  char* end = field + strcspn(field, delimiters);
  *rest = *end == '\0' ? NULL : end + 1;
  *end = '\0';
  return field;
}
