/* newlib's list of streams. Old versions of newlib have it in the first thread's state; newer
 * versions have variables of their own, which are weak here, so that a program without streams does
 * not link them. */
#pragma once
#include <reent.h>
#include <stddef.h>

#ifdef _REENT_CLEANUP
extern struct _glue __sglue __attribute__((weak));
extern void (*__stdio_exit_handler)(void) __attribute__((weak));
#endif

/* Returns the first part of the list of streams, or NULL if the program has no streams. */
static inline struct _glue* first_streams(void) {
#ifdef _REENT_CLEANUP
  return &__sglue;
#else
  return &_GLOBAL_REENT->__sglue;
#endif
}

/* Writes out and closes all streams when the program ends. */
static inline void close_streams(void) {
#ifdef _REENT_CLEANUP
  if (&__stdio_exit_handler != NULL && __stdio_exit_handler != NULL) __stdio_exit_handler();
#else
  if (_GLOBAL_REENT->__cleanup != NULL) _GLOBAL_REENT->__cleanup(_GLOBAL_REENT);
#endif
}
