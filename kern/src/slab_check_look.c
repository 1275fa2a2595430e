/* Read-only access to checked slabs: statistics, verification of the counts, and the walk over a
 * cache. slab_impl.h and slab_walk.h describe the functions; the theory is in slab_check.c. */

#include "slab_check_impl.h"
#include "slab_walk.h"

void slab_check_stats(const struct kmem_cache* cache, struct kmem_cache_stats* stats) {
  const struct kmem_checks* const checks = &cache->checks;
  const struct checked_slabs* const checked = &cache->checked;
  stats->checked = checks->on;
  stats->slabs += checked->slabs;
  stats->total_bytes += checked->slabs * checks->slab_size;
  stats->objects_in_slabs += checked->slabs * checks->objects;
  stats->checked_out = checked->out;
  stats->quarantined = checked->quarantined;
  stats->reports = __atomic_load_n(&checks->reports, __ATOMIC_RELAXED);
}

static const char* verify_slab(const struct kmem_cache* cache, const struct checked_slab* slab) {
  uint32_t states[STATES] = {0};
  if (slab->slab.cache != cache) return "a checked slab names another cache";
  if (slab_of(slab->slab.base) != slab) return "the page of a checked slab names another";
  for (uint32_t i = 0; i < cache->checks.objects; i++) {
    if (state_of(slab, i) >= STATES) return "an object has no state";
    states[state_of(slab, i)]++;
  }
  if (states[QUARANTINED] != slab->quarantined) return "quarantined objects are miscounted";
  return states[FREE] + states[QUARANTINED] + slab->slab.out == cache->checks.objects
             ? NULL
             : "checked objects are miscounted";
}

const char* slab_check_verify(const struct kmem_cache* cache, uint64_t* out) {
  const struct checked_slabs* const checked = &cache->checked;
  uint64_t slabs = 0, empty = 0, quarantined = 0, usable = 0, listed = 0;
  *out = 0;
  for (const struct checked_slab* slab = checked->lists[ALL][0]; slab;
       slab = slab->links[ALL].next) {
    const char* const wrong = verify_slab(cache, slab);
    if (wrong) return wrong;
    slabs++;
    empty += is_empty(slab);
    usable += is_usable(cache, slab);
    quarantined += slab->quarantined;
    *out += slab->slab.out;
  }
  for (const struct checked_slab* slab = checked->lists[USABLE][0]; slab;
       slab = slab->links[USABLE].next)
    listed++;
  if (listed != usable) return "a checked slab is in the wrong list";
  return slabs == checked->slabs && empty == checked->empty &&
                 quarantined == checked->quarantined && *out == checked->out
             ? NULL
             : "checked slabs are miscounted";
}

void slab_check_walk(const struct kmem_cache* cache, struct kmem_walk* walk) {
  slab_os_lock_not_needed(&cache->lock); /* nothing changes during a walk */
  const struct kmem_checks* const checks = &cache->checks;
  for (const struct checked_slab* slab = cache->checked.lists[ALL][0]; slab;
       slab = slab->links[ALL].next) {
    walk->slab(walk, &(struct kmem_walk_slab){.pages = slab->slab.base - checks->gap,
                                              .slab_size = checks->slab_size,
                                              .base = slab->slab.base,
                                              .stride = checks->stride,
                                              .size = cache->object_size,
                                              .count = checks->objects});
    for (uint32_t i = 0; i < checks->objects; i++) {
      const enum state state = state_of(slab, i);
      if (state == FREE || state == QUARANTINED)
        walk->not_live(walk, object_at(cache, slab, i),
                       state == FREE ? KMEM_WALK_FREE_IN_SLAB : KMEM_WALK_QUARANTINED, 0);
    }
  }
}
