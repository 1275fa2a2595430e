/* Describes an address in a slab (slab_walk.h). All other CPUs are stopped, so nothing changes, but
 * an operation may have been stopped half-way. The structure of a slab is read only if a page
 * descriptor or a list of a cache refers to the slab, because the structure is then complete. */
#include "slab_check_impl.h"
#include "slab_impl.h"
#include "slab_walk.h"

static bool has_round(const struct kmem_magazine* magazine, uint32_t rounds, const void* object) {
  for (uint32_t i = 0; magazine && i < rounds; i++)
    if (magazine->objects[i] == object) return true;
  return false;
}

static bool is_in_magazine(const struct kmem_cache* cache, struct kmem_located* located) {
  slab_os_lock_not_needed(&cache->depot_lock); /* nothing changes, here and below */
  for (unsigned i = 0; i < slab_os_cpu_count(); i++) {
    const struct kmem_cpu* const cpu = &cache->cpu[i];
    located->cpu = i;
    located->state = KMEM_LOCATED_IN_LOADED;
    if (has_round(cpu->loaded, cpu->rounds, located->object)) return true;
    located->state = KMEM_LOCATED_IN_PREVIOUS;
    if (has_round(cpu->previous, cpu->previous_rounds, located->object)) return true;
  }
  located->state = KMEM_LOCATED_IN_DEPOT;
  for (const struct kmem_magazine* full = cache->magazines[DEPOT_FULL].first; full;
       full = full->next)
    if (has_round(full, full->rounds, located->object)) return true;
  return false;
}

static bool is_in_slab(const struct kmem_cache* cache, const struct kmem_slab* slab,
                       const void* object) {
  if (cache->small) {
    for (const void* free = slab->free_objects; free; free = *(void* const*)free)
      if (free == object) return true;
  } else {
    for (const struct kmem_bufctl* free = slab->free_bufctls; free; free = free->next)
      if (free->object == object) return true;
  }
  return false;
}

static enum kmem_located_state checked_state(const struct kmem_slab* slab, uint32_t number) {
  switch (state_of((const struct checked_slab*)slab, number)) {
    case FREE:
      return KMEM_LOCATED_IN_SLAB;
    case TAKEN:
      return KMEM_LOCATED_TAKEN;
    case ALLOCATED_DAMAGED:
      return KMEM_LOCATED_LIVE_DAMAGED;
    case FREEING:
      return KMEM_LOCATED_FREEING;
    case FREEING_DAMAGED:
      return KMEM_LOCATED_FREEING_DAMAGED;
    case QUARANTINED:
      return KMEM_LOCATED_QUARANTINED;
    case ALLOCATED:
    case STATES:
      break;
  }
  return KMEM_LOCATED_LIVE;
}

static void describe(const struct kmem_slab* slab, struct kmem_located* located) {
  const struct kmem_cache* const cache = slab->cache;
  located->cache = slab->cache;
  located->structure = slab;
  located->pages = slab->base - slab->colour;
  located->out = slab->out;
  located->checked = slab->checked;
  located->stride = slab->checked ? cache->checks.stride : cache->stride;
  located->count = slab->checked ? cache->checks.objects : cache->objects_per_slab;
}

static void locate_in(const struct kmem_slab* slab, const void* address,
                      struct kmem_located* located) {
  const struct kmem_cache* const cache = slab->cache;
  describe(slab, located);
  const size_t structure =
      slab->checked ? sizeof(struct checked_slab) + located->count : sizeof(struct kmem_slab);
  const size_t into = (size_t)((const char*)address - (const char*)slab);
  const size_t offset = (size_t)((const char*)address - slab->base);
  const size_t number = offset / located->stride;
  if (into < structure) {
    located->part = KMEM_LOCATED_STRUCTURE;
  } else if ((const char*)address < slab->base) {
    located->part = KMEM_LOCATED_BEFORE;
  } else if (number >= located->count || offset % located->stride >= cache->object_size) {
    located->part = KMEM_LOCATED_BEHIND;
  } else {
    located->part = KMEM_LOCATED_OBJECT;
    located->object = slab->base + number * located->stride;
    if (slab->checked) {
      located->state = checked_state(slab, (uint32_t)number);
    } else if (is_in_slab(cache, slab, located->object)) {
      located->state = KMEM_LOCATED_IN_SLAB;
    } else if (!is_in_magazine(cache, located)) {
      located->state = KMEM_LOCATED_LIVE;
    }
  }
}

bool kmem_locate(const void* address, struct kmem_located* located) {
  const struct kmem_slab* const slab = slab_os_page_slab(address);
  if (!slab) return false;
  locate_in(slab, address, located);
  return true;
}

bool kmem_locate_of(struct kmem_cache* cache, const void* address, struct kmem_located* located) {
  slab_os_lock_not_needed(&cache->lock);
  for (unsigned list = 0; list < SLAB_LISTS; list++) {
    for (const struct kmem_slab* slab = cache->slabs[list]; slab; slab = slab->next) {
      const size_t offset = (size_t)((const char*)address - (slab->base - slab->colour));
      if (offset >= cache->slab_size) continue;
      locate_in(slab, address, located);
      return true;
    }
  }
  return false;
}

void kmem_locate_audit(const struct kmem_located* located, struct kmem_located_audit* audit) {
  const struct audit* const found = audit_of(located->cache, located->object);
  *audit = (struct kmem_located_audit){
      .allocated = found->allocated, .freed = found->freed, .requested = found->requested};
}

/* True if a cache has the slab in its lists. The slab's fields are valid only in this case. */
static bool is_known(const struct kmem_slab* slab) {
  for (struct kmem_cache* cache = kmem_walk_next(NULL); cache; cache = kmem_walk_next(cache)) {
    if (cache != slab->cache) continue;
    slab_os_lock_not_needed(&cache->lock);
    for (unsigned list = 0; list < SLAB_LISTS; list++)
      for (const struct kmem_slab* known = cache->slabs[list]; known; known = known->next)
        if (known == slab) return true;
  }
  return false;
}

bool kmem_locate_structure(const struct kmem_cache* cache, const void* object,
                           struct kmem_located* located) {
  const struct kmem_slab* const slab = (const struct kmem_slab*)object;
  if (cache != kmem_slab_cache || !is_known(slab)) return false;
  describe(slab, located);
  return true;
}

bool kmem_locate_bufctl(const struct kmem_cache* cache, const void* object,
                        const void** structure) {
  if (cache != kmem_bufctl_cache) return false;
  *structure = ((const struct kmem_bufctl*)object)->slab;
  return true;
}
