// The kernel's side of slab_os.h.
#include "slab_os.h"

#include <cstdarg>
#include <new>

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/smp.h"
#include "arena.h"
#include "cpu.h"
#include "lib/format.h"
#include "log.h"
#include "pages.h"
#include "spinlock.h"

static_assert(sizeof(Spinlock) <= sizeof(slab_os_lock));
static_assert(alignof(Spinlock) <= alignof(slab_os_lock));
static_assert(offsetof(Cpu, id) == 32, "slab_os_cpu");

namespace {

Spinlock& spinlock_of(slab_os_lock* lock) {
  return *reinterpret_cast<Spinlock*>(lock);
}

constexpr LockRank rank_of(slab_os_rank rank) {
  switch (rank) {
    case SLAB_OS_RANK_LIST:
      return LockRank::kSlabCacheList;
    case SLAB_OS_RANK_DEPOT:
      return LockRank::kSlabDepot;
    case SLAB_OS_RANK_CACHE:
      return LockRank::kSlabCache;
  }
  __builtin_unreachable();
}

}  // namespace

void slab_os_lock_init(slab_os_lock* lock, slab_os_rank rank) {
  new (lock) Spinlock(rank_of(rank));
}

void slab_os_lock_acquire(slab_os_lock* lock) NO_THREAD_SAFETY_ANALYSIS {
  ASSERT(!this_cpu().in_nmi);
  spinlock_of(lock).lock();
}
bool slab_os_lock_try(slab_os_lock* lock) NO_THREAD_SAFETY_ANALYSIS {
  return spinlock_of(lock).try_lock();
}
void slab_os_lock_release(slab_os_lock* lock) NO_THREAD_SAFETY_ANALYSIS {
  spinlock_of(lock).unlock();
}

// Caches are made before the other CPUs are started.
unsigned slab_os_cpu_count() {
  return acpi_info().cpu_count;
}

void slab_os_on_each_cpu(void (*function)(void*), void* argument) {
  on_each_cpu(function, argument);
}

arena* slab_os_page_source() {
  return page_arena;
}
arena* slab_os_metadata_source() {
  return base_arena;
}

void* slab_os_pages_alloc(arena* source, size_t size, int flags) {
  return arena_alloc(source, size, flags);
}
void slab_os_pages_free(arena* source, void* pages, size_t size) {
  arena_free(source, pages, size);
}

void slab_os_pages_set_slab(void* pages, size_t size, void* slab) {
  Page* const first = page_of(pages);
  for (size_t i = 0; i < size / kPageSize; i++) first[i].slab = slab;
}

void* slab_os_page_slab(const void* object) {
  const Page* const page = page_of(object);
  return page ? page->slab : nullptr;
}

void slab_os_log(const char* pattern, ...) {
  char line[160];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  klog("%s", line);
}

void slab_os_panic(const char* pattern, ...) {
  char line[160];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  panic("%s", line);
}
