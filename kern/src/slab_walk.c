/* The states of all objects of a cache (slab_walk.h).
 *
 * An object that is out of its slab is live unless it lies in a magazine of a CPU or of the depot.
 * An object that is free in its slab is on the slab's free list, linked by its first word or by its
 * bufctl. The structure of a checked slab has the state of each object instead. An object that a
 * stopped CPU was moving between slab and magazine counts as live. A search for unreachable objects
 * still finds such an object, because the CPU has the address of the object, or of its magazine, in
 * a register or on the stack. */
#include "slab_walk.h"

#include "slab_impl.h"

enum kmem_walk_kind kmem_walk_kind_of(const struct kmem_cache* cache) {
  if (cache->flags & KMC_QCACHE) return KMEM_WALK_QUANTA;
  if (cache == kmem_slab_cache) return KMEM_WALK_SLABS;
  if (cache == kmem_bufctl_cache || cache == kmem_hash_cache) return KMEM_WALK_OWN;
  for (unsigned type = 0; type < MAGAZINE_TYPES; type++)
    if (cache == kmem_magazine_caches[type]) return KMEM_WALK_MAGAZINES;
  return KMEM_WALK_CALLERS;
}

static void walk_slab(const struct kmem_cache* cache, struct kmem_slab* slab,
                      struct kmem_walk* walk) {
  walk->slab(walk, &(struct kmem_walk_slab){.pages = slab->base - slab->colour,
                                            .slab_size = cache->slab_size,
                                            .base = slab->base,
                                            .stride = cache->stride,
                                            .size = cache->object_size,
                                            .count = cache->objects_per_slab});
  if (cache->small) {
    for (void* free = slab->free_objects; free; free = *(void**)free)
      walk->not_live(walk, free, KMEM_WALK_FREE_IN_SLAB, 0);
  } else {
    walk->in_place(walk, slab);
    for (const struct kmem_bufctl* bufctl = slab->free_bufctls; bufctl; bufctl = bufctl->next)
      walk->not_live(walk, bufctl->object, KMEM_WALK_FREE_IN_SLAB, 0);
  }
}

static void walk_magazine(struct kmem_magazine* magazine, uint32_t rounds,
                          enum kmem_walk_state state, unsigned cpu, struct kmem_walk* walk) {
  if (!magazine) return;
  walk->in_place(walk, magazine);
  for (uint32_t i = 0; i < rounds; i++) walk->not_live(walk, magazine->objects[i], state, cpu);
}

static void walk_depot(struct kmem_magazine* first, struct kmem_walk* walk) {
  for (struct kmem_magazine* magazine = first; magazine; magazine = magazine->next)
    walk_magazine(magazine, magazine->rounds, KMEM_WALK_FREE_IN_DEPOT, 0, walk);
}

void kmem_walk_cache(struct kmem_cache* cache, struct kmem_walk* walk) {
  slab_os_lock_not_needed(&cache->lock); /* nothing changes during a walk */
  slab_os_lock_not_needed(&cache->depot_lock);
  for (unsigned list = 0; list < SLAB_LISTS; list++)
    for (struct kmem_slab* slab = cache->slabs[list]; slab; slab = slab->next)
      walk_slab(cache, slab, walk);
  slab_check_walk(cache, walk);
  for (unsigned i = 0; i < slab_os_cpu_count(); i++) {
    const struct kmem_cpu* const cpu = &cache->cpu[i];
    walk_magazine(cpu->loaded, cpu->rounds, KMEM_WALK_FREE_IN_MAGAZINE, i, walk);
    walk_magazine(cpu->previous, cpu->previous_rounds, KMEM_WALK_FREE_IN_MAGAZINE, i, walk);
  }
  walk_depot(cache->magazines[DEPOT_FULL].first, walk);
  walk_depot(cache->magazines[DEPOT_EMPTY].first, walk);
  walk_depot(cache->misfits, walk);
}
