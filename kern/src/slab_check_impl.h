/* Internals of the checks, shared by slab_check.c (checked slabs), slab_check_look.c (read-only
 * access), slab_check_report.c (patterns, reports) and slab_locate.c (description of an address).
 * The theory is in slab_check.c. For C only. */
#pragma once

#include "slab_impl.h"

/* Patterns repeat every four bytes, aligned to addresses that are multiples of four. */
static const uint32_t FREE_PATTERN = 0xdeadbeef, FRESH_PATTERN = 0xbaddcafe,
                      RED_PATTERN = 0xfeedface;
static const uint64_t RED_WORD = 0xfeedfacefeedface;

/* ---- Checked slabs. */

/* The lists of a cache's checked slabs: all of them, and those that have free objects. */
enum list { ALL, USABLE };

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

/* The structure of a checked slab, at the end of the slab's pages. */
struct checked_slab {
  struct kmem_slab slab;
  uint32_t quarantined; /* number of quarantined objects */
  uint32_t next;        /* index of the object that the next allocation tries first */
  uint32_t pins;        /* number of scans that keep the slab from being given back */
  struct {
    struct checked_slab *next, *prev;
  } links[2];
  uint8_t states[]; /* enum state, one for each object */
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
  return (enum state)__atomic_load_n(&slab->states[i], __ATOMIC_ACQUIRE);
}
static inline bool is_empty(const struct checked_slab* slab) {
  return slab->slab.out == 0 && slab->quarantined == 0;
}
static inline bool is_usable(const struct kmem_cache* cache, const struct checked_slab* slab) {
  return slab->slab.out + slab->quarantined < cache->checks.objects;
}

/* The record of an object's last allocation and free. It lies after the object's red zone. */
struct audit {
  uint64_t start;   /* RED_WORD, which a write past the red zone damages */
  size_t requested; /* bytes */
  struct slab_os_place allocated, freed;
  uint64_t guard; /* RED_WORD: the red zone before the next object */
};

static inline struct audit* audit_of(const struct kmem_cache* cache, const void* object) {
  return (struct audit*)((char*)object + cache->checks.stride) - 1;
}

/* Damage to a pattern, from the first to the last byte that differs. */
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
  struct kmem_cache* cache;  /* the object's cache. For NO_OBJECT: the cache whose slab contains the
                              * address, or `given` if the address is in no slab */
  struct kmem_cache* given;  /* the cache that the object was freed to */
  const char* object;        /* for NO_OBJECT: the freed address */
  const char* around;        /* for NO_OBJECT: the object in whose slot the address is, or NULL */
  const struct audit* audit; /* audit of the object; NULL if it has none */
  struct damage damage;      /* damage.first is NULL for verdicts without damage */
  const char* found;         /* text: how the error was found */
  struct slab_os_place place;
};

/* ---- slab_check_report.c. Any context. */

/* Writes the pattern to [from, to). */
void slab_check_fill(void* from, void* to, uint32_t pattern);
/* Compares [from, to) with the pattern. If a byte differs, stores the damage and returns true. */
bool slab_check_find_damage(const void* from, const void* to, uint32_t pattern,
                            struct damage* damage);
/* Counts and logs a report. `frame` is the stack frame of the function that found the error. No
 * lock is held. */
void slab_check_report(struct report* report, const char* found, const void* frame);
