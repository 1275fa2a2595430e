/* A walk over the objects of all caches with the state of each, and a description of any address
 * in a slab. C and C++.
 *
 * For walks over all memory while nothing changes (reach/reach.h): all other CPUs are stopped where
 * their interrupts were on, and this CPU's interrupts are off. The locks of caches are held with
 * interrupts off only, so nobody holds one. The walk takes no lock and no reference. */
#pragma once

#include "slab.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cache after `cache` in order of creation, zombies included; NULL for the first / after the
 * last. */
struct kmem_cache* kmem_walk_next(struct kmem_cache* cache);

/* The owner of a cache's objects. */
enum kmem_walk_kind {
  KMEM_WALK_CALLERS, /* its callers */
  KMEM_WALK_QUANTA,  /* direct callers of an arena; spans */
  /* The allocator. A magazine or slab in transit between two lists may hold the only pointers to
   * its objects, so these are followed. */
  KMEM_WALK_MAGAZINES,
  KMEM_WALK_SLABS,
  KMEM_WALK_OWN, /* the allocator; these lead nowhere else */
};
enum kmem_walk_kind kmem_walk_kind_of(const struct kmem_cache* cache);

/* The state of an object that is not live. */
enum kmem_walk_state {
  KMEM_WALK_FREE_IN_SLAB,
  KMEM_WALK_FREE_IN_MAGAZINE, /* of a CPU */
  KMEM_WALK_FREE_IN_DEPOT,
  KMEM_WALK_QUARANTINED, /* damaged: never handed out again (src/slab_check.c) */
};

/* A slab: objects of `size` bytes, `stride` bytes apart. */
struct kmem_walk_slab {
  void* pages; /* where its memory begins */
  size_t slab_size;
  void* base; /* first object */
  size_t stride, size;
  uint32_t count; /* objects */
};

struct kmem_walk {
  /* A slab. Its objects are live unless not_live is called for them later. */
  void (*slab)(struct kmem_walk* walk, const struct kmem_walk_slab* slab);
  /* An object that is not live, of a slab that has been visited. `cpu` is valid for
   * KMEM_WALK_FREE_IN_MAGAZINE. */
  void (*not_live)(struct kmem_walk* walk, void* object, enum kmem_walk_state state, unsigned cpu);
  /* A magazine that a CPU or the depot has, or a slab's structure in a list of its cache: an object
   * of a KMEM_WALK_MAGAZINES or KMEM_WALK_SLABS cache that is not in transit. It points to objects
   * of other owners and must not be followed. */
  void (*in_place)(struct kmem_walk* walk, void* object);
};
/* Time is proportional to the number of slabs and free objects. */
void kmem_walk_cache(struct kmem_cache* cache, struct kmem_walk* walk);

/* ---- Describing an address in a slab (src/slab_locate.c). */

enum kmem_located_part {
  KMEM_LOCATED_OBJECT,
  KMEM_LOCATED_STRUCTURE, /* of the slab, in its own pages */
  KMEM_LOCATED_BEFORE,    /* the first object */
  KMEM_LOCATED_BEHIND,    /* an object, or the last */
};
enum kmem_located_state {
  KMEM_LOCATED_LIVE,
  KMEM_LOCATED_IN_SLAB, /* free */
  KMEM_LOCATED_IN_LOADED,
  KMEM_LOCATED_IN_PREVIOUS,
  KMEM_LOCATED_IN_DEPOT,
  /* Of a checked object only. */
  KMEM_LOCATED_TAKEN,
  KMEM_LOCATED_LIVE_DAMAGED, /* and reported */
  KMEM_LOCATED_FREEING,
  KMEM_LOCATED_FREEING_DAMAGED,
  KMEM_LOCATED_QUARANTINED,
};
/* The last allocation and free of a checked object. */
struct kmem_located_audit {
  struct slab_os_place allocated, freed; /* all zero: never */
  size_t requested;                      /* bytes */
};
struct kmem_located {
  struct kmem_cache* cache;
  const void* structure; /* of the slab */
  const void* pages;     /* where the slab begins */
  size_t stride;
  uint32_t out, count; /* objects */
  bool checked;
  enum kmem_located_part part;
  /* Of KMEM_LOCATED_OBJECT: */
  const void* object;
  enum kmem_located_state state;
  unsigned cpu; /* that has the magazine */
};
/* Finds the slab that contains an address, which may be any number: a slab of a page-backed cache,
 * through its page, or (`_of`) a slab of `cache`. False if there is none. Time is proportional to
 * the free objects of the cache, for `_of` also to its slabs. Same context as a walk. */
bool kmem_locate(const void* address, struct kmem_located* located);
bool kmem_locate_of(struct kmem_cache* cache, const void* address, struct kmem_located* located);
/* Of an object in a checked slab. */
void kmem_locate_audit(const struct kmem_located* located, struct kmem_located_audit* audit);
/* Finds the slab of which `object`, a live object of kmem_slab, is the structure, or the structure
 * of the slab of which `object`, a live object of kmem_bufctl, is a bufctl. False if the object is
 * not in use yet, or any more. Leaves `part` and the fields behind it as they were. */
bool kmem_locate_structure(const struct kmem_cache* cache, const void* object,
                           struct kmem_located* located);
bool kmem_locate_bufctl(const struct kmem_cache* cache, const void* object, const void** structure);

#ifdef __cplusplus
}
#endif
