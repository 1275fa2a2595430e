/* Two services for code that examines all memory while nothing changes (reach/reach.h): a walk over
 * all caches, which reports each object and its state, and the description of any address in a
 * slab. C and C++.
 *
 * All other CPUs are stopped at places where their interrupts were on, and this CPU's interrupts
 * are off. Locks of caches are held with interrupts off only, so no CPU holds one. The functions
 * take no lock and no reference. */
#pragma once

#include "slab.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the cache after `cache` in order of creation; NULL after the last. With `cache` NULL
 * returns the first cache. Includes zombies: destroyed caches that still have live objects or
 * references. */
struct kmem_cache* kmem_walk_next(struct kmem_cache* cache);

/* The owner of a cache's objects. */
enum kmem_walk_kind {
  KMEM_WALK_CALLERS, /* the cache's callers */
  /* The cache is a quantum cache of an arena. The objects belong to direct callers of the arena, or
   * to caches and arenas that import spans from the arena. */
  KMEM_WALK_QUANTA,
  /* The allocator. A magazine or slab in transit between two lists may hold the only pointers to
   * its objects, so the words of such a magazine or slab are followed. */
  KMEM_WALK_MAGAZINES,
  KMEM_WALK_SLABS,
  KMEM_WALK_OWN, /* the allocator; the words of these objects need not be followed */
};
enum kmem_walk_kind kmem_walk_kind_of(const struct kmem_cache* cache);

/* The state of an object that is not live. */
enum kmem_walk_state {
  KMEM_WALK_FREE_IN_SLAB,
  KMEM_WALK_FREE_IN_MAGAZINE, /* in a CPU's magazine */
  KMEM_WALK_FREE_IN_DEPOT,
  KMEM_WALK_QUARANTINED, /* damaged: never handed out again (src/slab_check.c) */
};

/* A slab: objects of `size` bytes, one every `stride` bytes. */
struct kmem_walk_slab {
  void* pages; /* where the slab's memory begins */
  size_t slab_size;
  void* base; /* first object */
  size_t stride, size;
  uint32_t count; /* number of objects */
};

struct kmem_walk {
  /* Called for each slab. An object is live unless not_live is called for it later. */
  void (*slab)(struct kmem_walk* walk, const struct kmem_walk_slab* slab);
  /* Called for each object that is not live, after the call for its slab. `cpu` is valid for
   * KMEM_WALK_FREE_IN_MAGAZINE. */
  void (*not_live)(struct kmem_walk* walk, void* object, enum kmem_walk_state state, unsigned cpu);
  /* Called for each of the cache's magazines that a CPU or the depot has, and for the structure of
   * each slab in the cache's lists, if the structure lies outside the slab. These magazines and
   * structures are not in transit (see enum kmem_walk_kind). Their words point to objects of other
   * owners, and must not be followed. */
  void (*in_place)(struct kmem_walk* walk, void* object);
};
/* Calls the functions of `walk` for the slabs and objects of the cache. Time is proportional to the
 * number of slabs and free objects. */
void kmem_walk_cache(struct kmem_cache* cache, struct kmem_walk* walk);

/* ---- Describing an address in a slab (src/slab_locate.c). */

enum kmem_located_part {
  KMEM_LOCATED_OBJECT,
  KMEM_LOCATED_STRUCTURE, /* in the slab's structure, which lies in the slab's pages */
  KMEM_LOCATED_BEFORE,    /* before the first object */
  KMEM_LOCATED_BEHIND,    /* between two objects, or after the last one */
};
enum kmem_located_state {
  KMEM_LOCATED_LIVE,
  KMEM_LOCATED_IN_SLAB,     /* free, in its slab */
  KMEM_LOCATED_IN_LOADED,   /* free, in a CPU's loaded magazine */
  KMEM_LOCATED_IN_PREVIOUS, /* free, in a CPU's previous magazine */
  KMEM_LOCATED_IN_DEPOT,    /* free, in a full magazine of the depot */
  /* Only a checked object has the following states. */
  KMEM_LOCATED_TAKEN,           /* being allocated */
  KMEM_LOCATED_LIVE_DAMAGED,    /* live, and reported as damaged */
  KMEM_LOCATED_FREEING,         /* being freed */
  KMEM_LOCATED_FREEING_DAMAGED, /* being freed, and reported as damaged */
  KMEM_LOCATED_QUARANTINED,     /* damaged: never handed out again */
};
/* The last allocation and free of a checked object. */
struct kmem_located_audit {
  struct slab_os_place allocated, freed; /* all zero: there was none */
  size_t requested;                      /* bytes requested by the last allocation */
};
struct kmem_located {
  struct kmem_cache* cache;
  const void* structure; /* the slab's structure */
  const void* pages;     /* where the slab begins */
  size_t stride;
  uint32_t out, count; /* objects of the slab that are handed out; all objects of the slab */
  bool checked;
  enum kmem_located_part part;
  /* The following fields are set if `part` is KMEM_LOCATED_OBJECT. */
  const void* object;
  enum kmem_located_state state;
  unsigned cpu; /* for IN_LOADED and IN_PREVIOUS: the CPU with the magazine */
};
/* Finds the slab that contains `address`, which may be any number. kmem_locate() uses the page
 * descriptor of the address, so it finds only slabs that are memory (caches without KMC_NOTOUCH).
 * kmem_locate_of() searches the slabs of `cache`. False if there is no such slab. The time of
 * kmem_locate() is at most proportional to the number of the cache's free objects. The time of
 * kmem_locate_of() is at most proportional to the number of the cache's slabs plus free objects.
 * All rules of a walk apply (see the head of this file). */
bool kmem_locate(const void* address, struct kmem_located* located);
bool kmem_locate_of(struct kmem_cache* cache, const void* address, struct kmem_located* located);
/* Gets the audit of an object in a checked slab. */
void kmem_locate_audit(const struct kmem_located* located, struct kmem_located_audit* audit);
/* `object` must be a live object of `cache`. If `cache` is the cache of slab structures,
 * kmem_locate_structure() describes the slab whose structure is `object`, and leaves `part` and the
 * fields after it unchanged. If `cache` is the cache of bufctls, kmem_locate_bufctl() sets
 * `structure` to the structure of the slab to which the bufctl belongs. Both return false for any
 * other cache; kmem_locate_structure() also if no slab uses the structure. */
bool kmem_locate_structure(const struct kmem_cache* cache, const void* object,
                           struct kmem_located* located);
bool kmem_locate_bufctl(const struct kmem_cache* cache, const void* object, const void** structure);

#ifdef __cplusplus
}
#endif
