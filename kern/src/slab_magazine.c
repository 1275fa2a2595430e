/* The upper half of a cache: allocation and free through the magazines of CPUs. The theory is in
 * slab.c. */

#include "kasan.h"
#include "slab_impl.h"

/* ---- This CPU's magazines. Interrupts are off. */

/* Re-reads the flags to see which one is set. The common check then stays a single `testb` on
 * memory. */
static inline uint32_t flags_again(const struct kmem_cpu* cpu) {
  __asm__("" ::: "memory");
  return cpu->flags;
}

static void swap_magazines(struct kmem_cpu* cpu) {
  struct kmem_magazine* const loaded = cpu->loaded;
  const uint32_t rounds = cpu->rounds;
  cpu->loaded = cpu->previous;
  set_rounds(cpu, cpu->previous_rounds);
  cpu->capacity = cpu->loaded ? cpu->loaded->capacity : 0;
  cpu->previous = loaded;
  __atomic_store_n(&cpu->previous_rounds, rounds, __ATOMIC_RELAXED);
}

/* Loads `magazine`. The magazine that was loaded becomes the previous one. The caller has put the
 * old previous magazine, if there was one, into the depot. */
static void load_magazine(struct kmem_cpu* cpu, struct kmem_magazine* magazine, uint32_t rounds) {
  cpu->previous = magazine;
  __atomic_store_n(&cpu->previous_rounds, rounds, __ATOMIC_RELAXED);
  swap_magazines(cpu);
}

/* Replaces the loaded magazine, which is empty or missing, by one with objects. False if neither
 * the previous magazine nor the depot has objects. */
static bool load_full(struct kmem_cache* cache, struct kmem_cpu* cpu) {
  if (cpu->previous_rounds > 0) {
    swap_magazines(cpu);
    return true;
  }
  struct kmem_magazine* const full = depot_take_full(cache);
  if (!full) return false;
  if (cpu->previous) depot_put(cache, cpu->previous, 0);
  load_magazine(cpu, full, full->rounds);
  return true;
}

/* Replaces the loaded magazine, which is full or missing, by one with room. False if there is no
 * empty magazine. */
static bool load_empty(struct kmem_cache* cache, struct kmem_cpu* cpu) {
  if (cpu->previous && cpu->previous_rounds < cpu->previous->capacity) {
    swap_magazines(cpu);
    return true;
  }
  struct kmem_magazine* const empty = depot_take_empty(cache);
  if (!empty) return false;
  if (cpu->previous) depot_put(cache, cpu->previous, cpu->previous_rounds);
  load_magazine(cpu, empty, 0);
  return true;
}

static bool uses_magazines(const struct kmem_cache* cache) {
  return !(__atomic_load_n(&cache->flags, __ATOMIC_RELAXED) & KMC_NOMAGAZINE) &&
         !__atomic_load_n(&cache->zombie, __ATOMIC_ACQUIRE) && !slab_check_on(cache);
}

/* ---- Hooks for KernelAddressSanitizer (kasan.h). They compile to nothing in other kernels. */

#ifdef CONFIG_KASAN

static bool is_memory(const struct kmem_cache* cache) {
  return !(__atomic_load_n(&cache->flags, __ATOMIC_RELAXED) & KMC_NOTOUCH);
}

/* Allow and forbid accesses to an object. Accesses to a free object are allowed while its
 * constructor or destructor runs. */
static void open_object(const struct kmem_cache* cache, void* object) {
  if (is_memory(cache)) kasan_allow(object, cache->object_size);
}
static void close_object(const struct kmem_cache* cache, void* object) {
  if (is_memory(cache)) kasan_forbid(object, cache->object_size, KASAN_FREED);
}

/* Called before a caller gets `object`, which may be NULL: allows accesses to the requested bytes.
 * Returns `object`. */
static void* handed_out(const struct kmem_cache* cache, void* object, size_t requested) {
  if (!object || !is_memory(cache)) return object;
  const size_t whole = (requested + 7) & ~(size_t)7;
  kasan_allow(object, requested);
  if (whole < cache->object_size)
    kasan_forbid((char*)object + whole, cache->object_size - whole, KASAN_REDZONE);
  return object;
}

/* Called when a caller frees the object: forbids accesses to it. False if the object is free
 * already; KASAN has then reported this. If a freed object may lie in a checked slab (KMC_CHECKED),
 * this function does nothing, and free_checked forbids the accesses. */
static bool taken_back(const struct kmem_cache* cache, void* object) {
  if (!is_memory(cache) || (kmem_cache_flags(cache) & KMC_CHECKED)) return true;
  if (!kasan_may_free(object)) return false;
  close_object(cache, object);
  return true;
}

/* Delays the reuse of freed objects: swaps the last object of the loaded magazine with another one,
 * which the number of allocations selects. The magazine is not empty. */
static void choose_object(struct kmem_cpu* cpu) {
  void** const objects = cpu->loaded->objects;
  const uint32_t last = cpu->rounds - 1, other = (uint32_t)(cpu->allocations % cpu->rounds);
  void* const object = objects[other];
  objects[other] = objects[last];
  objects[last] = object;
}

#else

static inline void open_object(const struct kmem_cache* cache, void* object) {
  (void)cache, (void)object;
}
static inline void close_object(const struct kmem_cache* cache, void* object) {
  (void)cache, (void)object;
}
static inline void* handed_out(const struct kmem_cache* cache, void* object, size_t requested) {
  (void)cache, (void)requested;
  return object;
}
static inline bool taken_back(const struct kmem_cache* cache, void* object) {
  (void)cache, (void)object;
  return true;
}
static inline void choose_object(struct kmem_cpu* cpu) {
  (void)cpu;
}

#endif

/* ---- Allocation. */

/* Panics on invalid arguments. Allocations from the slabs always check, since a check costs little
 * there. The entry points check only with CONFIG_SLAB_CHECK_CALLS. */
ALLOCATOR_TEXT static __attribute__((noinline, cold)) void check_call(
    const struct kmem_cache* cache, size_t requested, int flags) {
  if (requested > cache->object_size)
    slab_os_panic("%s: %lu bytes are requested, but objects have %lu", cache->name,
                  (unsigned long)requested, (unsigned long)cache->object_size);
  if ((flags & KM_ZERO) && cache->constructor)
    slab_os_panic("%s: KM_ZERO is requested, but objects have a constructor", cache->name);
  if ((flags & KM_SLEEP) && !slab_os_may_sleep())
    slab_os_panic("%s: KM_SLEEP is requested, but the caller may not sleep", cache->name);
}

/* Takes an object from the slabs and constructs it. With KM_SLEEP, reaps and retries while there is
 * no memory. The slab layer's own allocations never reap: if each nested allocation reaped, one
 * failure would reap many times. */
ALLOCATOR_TEXT static void* constructed_from_slab(struct kmem_cache* cache, int flags) {
  void* object = slab_layer_alloc(cache, flags & ~(KM_ZERO | KM_SLEEP));
  for (int extent = KMEM_REAP_SURPLUS; !object && (flags & KM_SLEEP) && extent <= KMEM_REAP_ALL;
       extent++) {
    kmem_reap_some((enum kmem_reap_extent)extent);
    object = slab_layer_alloc(cache, flags & ~(KM_ZERO | KM_SLEEP));
  }
  if (!object) return NULL;
  if (!cache->constructor) return object;
  open_object(cache, object);
  if (cache->constructor(object, cache->private_data, flags) != 0) {
    close_object(cache, object);
    if (slab_layer_free(cache, object)) kmem_cache_release_later(cache);
    return NULL;
  }
  return object;
}

/* Ends the interrupts-off region and fails the allocation. */
ALLOCATOR_TEXT static void* alloc_failed(struct kmem_cache* cache, uint64_t saved) {
  slab_os_irq_restore(saved);
  __atomic_fetch_add(&cache->failures, 1, __ATOMIC_RELAXED);
  return NULL;
}

ALLOCATOR_TEXT static bool injected_failure(const struct kmem_cache* cache,
                                            const struct kmem_cpu* cpu, size_t requested,
                                            int flags) {
  return UNLIKELY(cpu->flags & KMC_ALLOC_HOOKS & KMC_INJECT) &&
         kmem_inject(KMEM_INJECT_CACHE, cache, requested, flags);
}

/* The loaded magazine is empty or missing. Leaves the interrupts-off region before it calls the
 * slab layer; afterwards the task may run on another CPU, and the flags may have changed. */
ALLOCATOR_TEXT static __attribute__((noinline, cold)) void* alloc_slow(struct kmem_cache* cache,
                                                                       size_t requested, int flags,
                                                                       const void* frame,
                                                                       uint64_t saved) {
  struct kmem_cpu* cpu = cpu_part(cache);
  if (injected_failure(cache, cpu, requested, flags)) return alloc_failed(cache, saved);
  void* object;
  if (uses_magazines(cache) && load_full(cache, cpu)) {
    choose_object(cpu);
    object = magazine_pop(cpu);
  } else {
    slab_os_irq_restore(saved);
    check_call(cache, requested, flags);
    object = constructed_from_slab(cache, flags);
    if (object && (kmem_cache_flags(cache) & KMC_CHECKED))
      slab_check_allocated(cache, object, requested, frame);
    saved = slab_os_irq_save();
    if (!object) return alloc_failed(cache, saved);
    cpu = cpu_part(cache);
  }
  slab_os_count(&cpu->allocations, 1);
  if (UNLIKELY(cpu->flags & KMC_ALLOC_HOOKS & KMC_TRACED))
    return slab_trace_alloc(cache, object, requested, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

/* KMC_INJECT is set; KMC_TRACED may be set too. The object has left the loaded magazine. */
ALLOCATOR_TEXT static __attribute__((noinline, cold)) void* alloc_injected(
    struct kmem_cache* cache, void* object, size_t requested, int flags, const void* frame,
    uint64_t saved) {
  struct kmem_cpu* const cpu = cpu_part(cache);
  if (injected_failure(cache, cpu, requested, flags)) {
    magazine_push(cpu, object);
    slab_os_count(&cpu->allocations, -1);
    return alloc_failed(cache, saved);
  }
  if (cpu->flags & KMC_TRACED) return slab_trace_alloc(cache, object, requested, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

/* The fast path. `frame` is the stack frame of the entry point; a backtrace begins with the entry
 * point's caller. Each cold path is a tail call and ends the interrupts-off region itself. So the
 * hot path saves no registers for a cold path. `requested` is a pointer, because only the cold
 * paths read the size. */
static inline __attribute__((always_inline)) void* alloc_object(struct kmem_cache* cache,
                                                                const size_t* requested, int flags,
                                                                const void* frame) {
  const uint64_t saved = slab_os_irq_save();
  struct kmem_cpu* const cpu = cpu_part(cache);
  if (UNLIKELY(cpu->rounds == 0)) return alloc_slow(cache, *requested, flags, frame, saved);
  choose_object(cpu);
  void* const object = magazine_pop(cpu);
  slab_os_count(&cpu->allocations, 1);
  if (UNLIKELY(cpu->flags & KMC_ALLOC_HOOKS)) {
    if (UNLIKELY(flags_again(cpu) & KMC_INJECT))
      return alloc_injected(cache, object, *requested, flags, frame, saved);
    return slab_trace_alloc(cache, object, *requested, frame, saved);
  }
  slab_os_irq_restore(saved);
  return object;
}

/* Zeroes only the requested bytes, because the other bytes may be red zone. Interrupts are on
 * meanwhile, because an object can be large. */
ALLOCATOR_TEXT static __attribute__((noinline)) void* alloc_zeroed(struct kmem_cache* cache,
                                                                   size_t requested, int flags,
                                                                   const void* frame) {
  void* const object = handed_out(cache, alloc_object(cache, &requested, flags, frame), requested);
  if (object) __builtin_memset(object, 0, requested);
  return object;
}

ALLOCATOR_TEXT void* kmem_cache_alloc(struct kmem_cache* cache, int flags) {
  const void* const frame = __builtin_frame_address(0);
  if (SLAB_OS_CHECK_CALLS) check_call(cache, cache->object_size, flags);
  if (UNLIKELY(flags & KM_ZERO)) return alloc_zeroed(cache, cache->object_size, flags, frame);
  return handed_out(cache, alloc_object(cache, &cache->object_size, flags, frame),
                    cache->object_size);
}

ALLOCATOR_TEXT void* kmem_cache_alloc_sized(struct kmem_cache* cache, size_t requested, int flags) {
  const void* const frame = __builtin_frame_address(0);
  if (SLAB_OS_CHECK_CALLS) check_call(cache, requested, flags);
  if (UNLIKELY(flags & KM_ZERO)) return alloc_zeroed(cache, requested, flags, frame);
  return handed_out(cache, alloc_object(cache, &requested, flags, frame), requested);
}

/* ---- Free. */

/* Removes a free from the count after it turns out that the object belongs to another cache. */
static void uncount_free(struct kmem_cache* cache) {
  const uint64_t saved = slab_os_irq_save();
  slab_os_count(&cpu_part(cache)->frees, -1);
  slab_os_irq_restore(saved);
}

/* Destructs an object and gives it back to its slab. */
static void object_to_slab(struct kmem_cache* cache, void* object) {
  if (!slab_check_owner(cache, object)) {
    uncount_free(cache);
    return;
  }
  if (cache->destructor) {
    open_object(cache, object);
    cache->destructor(object, cache->private_data);
    close_object(cache, object);
  }
  if (slab_layer_free(cache, object)) kmem_cache_release_later(cache);
}

/* The loaded magazine is full or missing. The free has been counted, and the object's trace record
 * has been dropped. */
ALLOCATOR_TEXT static __attribute__((noinline, cold)) void free_slow(struct kmem_cache* cache,
                                                                     void* object, uint64_t saved) {
  while (uses_magazines(cache)) {
    struct kmem_cpu* const cpu = cpu_part(cache);
    if (cpu->rounds < cpu->capacity || load_empty(cache, cpu)) {
      magazine_push(cpu, object);
      slab_os_irq_restore(saved);
      return;
    }
    slab_os_irq_restore(saved);
    struct kmem_magazine* const magazine = magazine_make(cache);
    saved = slab_os_irq_save();
    if (!magazine) break;
    depot_put(cache, magazine, 0);
  }
  slab_os_irq_restore(saved);
  object_to_slab(cache, object);
}

/* Puts the object into the loaded magazine and ends the interrupts-off region. */
static inline __attribute__((always_inline)) void free_object(struct kmem_cache* cache,
                                                              struct kmem_cpu* cpu, void* object,
                                                              uint64_t saved) {
  if (UNLIKELY(cpu->rounds == cpu->capacity)) {
    free_slow(cache, object, saved);
    return;
  }
  magazine_push(cpu, object);
  slab_os_irq_restore(saved);
}

/* The object may belong to a checked slab. Checks the object, with interrupts on, before the free
 * is counted. */
ALLOCATOR_TEXT static __attribute__((noinline, cold)) void free_checked(struct kmem_cache* cache,
                                                                        void* object,
                                                                        uint64_t saved) {
  slab_os_irq_restore(saved);
  const enum check_outcome outcome = slab_check_free(cache, object, __builtin_frame_address(0));
  if (outcome == CHECK_REFUSED) return;
  close_object(cache, object);
  saved = slab_os_irq_save();
  struct kmem_cpu* const cpu = cpu_part(cache);
  slab_os_count(&cpu->frees, 1);
  if (cpu->flags & KMC_EVER_TRACED) {
    slab_trace_free(cache, object, saved);
    saved = slab_os_irq_save();
  }
  if (outcome == CHECK_UNCHECKED) {
    free_object(cache, cpu_part(cache), object, saved);
    return;
  }
  slab_os_irq_restore(saved);
  object_to_slab(cache, object);
}

/* The loaded magazine has no room. Drops the object's trace record before the call of free_slow,
 * because free_slow may leave the interrupts-off region. */
ALLOCATOR_TEXT static __attribute__((noinline, cold)) void free_traced_slow(
    struct kmem_cache* cache, void* object, uint64_t saved) {
  slab_trace_free(cache, object, saved);
  free_slow(cache, object, slab_os_irq_save());
}

ALLOCATOR_TEXT void kmem_cache_free(struct kmem_cache* cache, void* object) {
  if (UNLIKELY(!object) || !taken_back(cache, object)) return;
  const uint64_t saved = slab_os_irq_save();
  struct kmem_cpu* const cpu = cpu_part(cache);
  if (UNLIKELY(cpu->flags & KMC_FREE_HOOKS)) {
    if (UNLIKELY(flags_again(cpu) & KMC_CHECKED)) {
      free_checked(cache, object, saved);
      return;
    }
    slab_os_count(&cpu->frees, 1);
    if (UNLIKELY(cpu->rounds == cpu->capacity)) {
      free_traced_slow(cache, object, saved);
      return;
    }
    magazine_push(cpu, object);
    slab_trace_free(cache, object, saved);
    return;
  }
  slab_os_count(&cpu->frees, 1);
  free_object(cache, cpu, object, saved);
}

/* ---- Taking magazines away. */

static void empty_magazine(struct kmem_cache* cache, struct kmem_magazine* magazine,
                           uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; i++) object_to_slab(cache, magazine->objects[i]);
}

/* Takes the loaded magazine off this CPU and loads the previous one. Returns the magazine, or NULL
 * if no magazine was loaded, and stores the number of its objects in *rounds. */
static struct kmem_magazine* unload_magazine(struct kmem_cpu* cpu, uint32_t* rounds) {
  struct kmem_magazine* const magazine = cpu->loaded;
  *rounds = cpu->rounds;
  cpu->loaded = NULL;
  set_rounds(cpu, 0);
  swap_magazines(cpu);
  return magazine;
}

void magazines_drain_cpu(struct kmem_cache* cache) {
  for (int i = 0; i < 2; i++) {
    uint32_t rounds;
    struct kmem_magazine* const magazine = unload_magazine(cpu_part(cache), &rounds);
    if (!magazine) continue;
    empty_magazine(cache, magazine, rounds);
    depot_put(cache, magazine, 0);
  }
}

/* Runs on each CPU with interrupts off: moves this CPU's magazines of the batch's caches, with
 * their objects, to the depots of these caches. */
static void unload_cpu(void* argument) {
  const struct cache_batch* const batch = (const struct cache_batch*)argument;
  for (unsigned i = 0; i < 2 * batch->count; i++) {
    struct kmem_cache* const cache = batch->caches[i / 2];
    uint32_t rounds;
    struct kmem_magazine* const magazine = unload_magazine(cpu_part(cache), &rounds);
    if (magazine) depot_put(cache, magazine, rounds);
  }
}

bool magazines_loaded(const struct kmem_cache* cache) {
  for (unsigned i = 0; i < slab_os_cpu_count(); i++) {
    if (__atomic_load_n(&cache->cpu[i].rounds, __ATOMIC_RELAXED) ||
        __atomic_load_n(&cache->cpu[i].previous_rounds, __ATOMIC_RELAXED))
      return true;
  }
  return false;
}

void magazines_unload(struct cache_batch* batch) {
  slab_os_on_each_cpu(unload_cpu, batch);
}

void magazines_reap(struct kmem_cache* cache, bool surplus_only) {
  for (struct kmem_magazine* magazine; (magazine = depot_reap_full(cache, surplus_only));) {
    empty_magazine(cache, magazine, magazine->rounds);
    magazine_free(magazine);
  }
  depot_reap_empty(cache, surplus_only);
}

void magazines_retire(struct kmem_cache* cache) {
  struct cache_batch batch = {{cache}, 1};
  magazines_unload(&batch);
  magazines_reap(cache, false);
}

void magazines_finish(struct kmem_cache* cache) {
  depot_reap_empty(cache, false);
}

void magazines_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats) {
  const unsigned cpus = slab_os_cpu_count();
  /* Sums the frees first. So if a free is counted, its allocation is counted, too. */
  for (unsigned i = 0; i < cpus; i++)
    stats->frees += __atomic_load_n(&cache->cpu[i].frees, __ATOMIC_ACQUIRE);
  for (unsigned i = 0; i < cpus; i++) {
    const struct kmem_cpu* const cpu = &cache->cpu[i];
    stats->allocations += __atomic_load_n(&cpu->allocations, __ATOMIC_ACQUIRE);
    stats->magazine_rounds += __atomic_load_n(&cpu->rounds, __ATOMIC_RELAXED) +
                              __atomic_load_n(&cpu->previous_rounds, __ATOMIC_RELAXED);
  }
  stats->live = stats->allocations - stats->frees;
  depot_stats(cache, stats);
  if (!uses_magazines(cache)) stats->magazine_size = 0;
}
