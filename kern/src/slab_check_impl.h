/* What slab_check.c (checked slabs), slab_check_look.c (looks at them) and slab_check_report.c
 * (patterns, reports) share. C. */
#pragma once

#include "slab_impl.h"

/* Words that lie at multiples of four. */
static const uint32_t FREE_PATTERN = 0xdeadbeef, FRESH_PATTERN = 0xbaddcafe,
                      RED_PATTERN = 0xfeedface;
static const uint64_t RED_WORD = 0xfeedfacefeedface;

/* ---- Checked slabs. */

enum list { ALL, USABLE }; /* those with free objects */

enum state {
  FREE,
  TAKEN,
  ALLOCATED,
  ALLOCATED_DAMAGED,
  FREEING,
  FREEING_DAMAGED,
  QUARANTINED,
  STATES
};

/* At the end of its pages. */
struct checked_slab {
  struct kmem_slab slab;
  uint32_t quarantined;
  uint32_t next; /* object to try first */
  uint32_t pins; /* by scans: it is not given back */
  struct {
    struct checked_slab *next, *prev;
  } links[2];
  uint8_t states[]; /* enum state */
};

static inline struct checked_slab* slab_of(const void* object) {
  struct kmem_slab* const slab = slab_os_page_slab(object);
  return slab && slab->checked ? (struct checked_slab*)slab : NULL;
}
static inline char* object_at(const struct kmem_cache* cache, const struct checked_slab* slab,
                              uint32_t i) {
  return slab->slab.base + i * cache->checks.stride;
}
static inline enum state state_of(const struct checked_slab* slab, uint32_t i) {
  return __atomic_load_n(&slab->states[i], __ATOMIC_ACQUIRE);
}
static inline bool is_empty(const struct checked_slab* slab) {
  return slab->slab.out == 0 && slab->quarantined == 0;
}
static inline bool is_usable(const struct kmem_cache* cache, const struct checked_slab* slab) {
  return slab->slab.out + slab->quarantined < cache->checks.objects;
}

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
