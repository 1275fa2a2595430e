/* A walk over the objects of all caches, with the state of each; and what an address in a slab is.
 * C and C++.
 *
 * For who looks at memory as a whole while nothing changes (reach/reach.h): all other CPUs are
 * stopped where their interrupts were on, and so are this one's now off. The locks of caches are
 * held with interrupts off only, so nobody holds one, and none is taken here; nor is a reference.
 */
#pragma once

#include "slab.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cache after `cache` in order of creation, zombies included; NULL for the first / after the
 * last. */
struct kmem_cache* kmem_walk_next(struct kmem_cache* cache);

/* Whose objects a cache has. */
enum kmem_walk_kind {
  KMEM_WALK_CALLERS, /* its callers' */
  KMEM_WALK_QUANTA,  /* pieces of an arena: its direct callers', and spans */
  /* The allocator's, which are followed since what leads to them may be all that leads to objects
   * and memory on their way from one place to another. */
  KMEM_WALK_MAGAZINES,
  KMEM_WALK_SLABS,
  KMEM_WALK_OWN, /* the allocator's, which lead nowhere else */
};
enum kmem_walk_kind kmem_walk_kind_of(const struct kmem_cache* cache);

/* What an object is when it is not live. */
enum kmem_walk_state {
  KMEM_WALK_FREE_IN_SLAB,
  KMEM_WALK_FREE_IN_MAGAZINE, /* of a CPU */
  KMEM_WALK_FREE_IN_DEPOT,
  KMEM_WALK_QUARANTINED, /* damaged: nobody gets it again (src/slab_check.c) */
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
  /* A slab. What of its objects is not visited after it is live. */
  void (*slab)(struct kmem_walk* walk, const struct kmem_walk_slab* slab);
  /* An object that is not live, of a slab that has been visited. `cpu`: of
   * KMEM_WALK_FREE_IN_MAGAZINE. */
  void (*not_live)(struct kmem_walk* walk, void* object, enum kmem_walk_state state, unsigned cpu);
  /* A magazine that a CPU or the depot has, or a slab's structure in a list of its cache: an object
   * of a cache of kind KMEM_WALK_MAGAZINES or KMEM_WALK_SLABS that is where it belongs. It leads to
   * objects that others have, and is not to be followed. */
  void (*in_place)(struct kmem_walk* walk, void* object);
};
/* Time in proportion to slabs and free objects. */
void kmem_walk_cache(struct kmem_cache* cache, struct kmem_walk* walk);

/* ---- What an address in a slab is (src/slab_locate.c). */

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
/* Who had a checked object last. */
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
  unsigned cpu; /* whose magazine */
};
/* The slab that an address, any number, lies in: of a page-backed cache, whose pages know it, or
 * (`_of`) one of the slabs of `cache`. False if there is none. Time in proportion to the slabs, for
 * `_of`, and to the free objects of the cache. The context of a walk. */
bool kmem_locate(const void* address, struct kmem_located* located);
bool kmem_locate_of(struct kmem_cache* cache, const void* address, struct kmem_located* located);
/* Of an object in a checked slab. */
void kmem_locate_audit(const struct kmem_located* located, struct kmem_located_audit* audit);
/* The slab of which `object` is the structure, or (`_bufctl`) a bufctl: a live object of the cache
 * of these. False if it is not in use yet, or any more. `part` and what follows stays as it was. */
bool kmem_locate_structure(const struct kmem_cache* cache, const void* object,
                           struct kmem_located* located);
bool kmem_locate_bufctl(const struct kmem_cache* cache, const void* object, const void** structure);

#ifdef __cplusplus
}
#endif
