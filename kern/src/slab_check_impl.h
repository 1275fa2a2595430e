/* What slab_check.c (checked slabs) and slab_check_report.c (patterns, reports) share. C. */
#pragma once

#include "slab_impl.h"

/* Words that lie at multiples of four. */
static const uint32_t FREE_PATTERN = 0xdeadbeef, FRESH_PATTERN = 0xbaddcafe,
                      RED_PATTERN = 0xfeedface;
static const uint64_t RED_WORD = 0xfeedfacefeedface;

/* What stands behind an object and its red zone. */
struct audit {
  uint64_t start; /* RED_WORD too: what writes past the red zone meets it */
  size_t requested;
  struct slab_os_place allocated, freed;
  uint64_t guard; /* RED_WORD: the red zone before the next object */
};

static inline struct audit* audit_of(const struct kmem_cache* cache, const void* object) {
  return (struct audit*)((char*)object + cache->checks.stride) - 1;
}

/* What was found where a pattern should be: from the first to the last byte that is another. */
struct damage {
  const unsigned char *first, *last;
  uint32_t pattern;
};

enum verdict {
  SOUND,
  DOUBLE_FREE,
  WRONG_CACHE,
  NO_OBJECT,
  WRITE_PAST_END,
  WRITE_BEFORE,
  WRITE_AFTER_FREE,
  NO_AUDIT
};

struct report {
  enum verdict verdict;
  struct kmem_cache* cache;  /* that the object belongs to; for NO_OBJECT that it was given to */
  struct kmem_cache* given;  /* WRONG_CACHE: that it was given to */
  const char* object;        /* or the address that is none */
  const char* around;        /* NO_OBJECT: the object that it lies in; NULL if there is none */
  const struct audit* audit; /* of the object; NULL if it has none */
  struct damage damage;      /* of verdicts that have one: first is not NULL */
  const char* found;         /* how */
  struct slab_os_place place;
};

/* ---- slab_check_report.c. Any context. */

/* Writes the pattern from `from` to before `to`; looks whether it is there. */
void slab_check_fill(void* from, void* to, uint32_t pattern);
bool slab_check_find_damage(const void* from, const void* to, uint32_t pattern,
                            struct damage* damage);
/* Counts and logs. `frame`: of who finds it. No lock is held. */
void slab_check_report(struct report* report, const char* found, const void* frame);
