// The list of arenas: names, and references to arenas (arena.h). An arena leaves the list, and is
// freed, when its last reference is dropped.
//
// Lock: list_lock. No other lock is taken while it is held.
#include "arena_impl.h"
#include "arena_walk.h"
#include "core/spinlock.h"
#include "lib/format.h"
#include "lib/string.h"
#include "slab.h"
#include "slab_os.h"

constinit Spinlock arena_impl::list_lock{LockRank::kArena};

using arena_impl::list_lock;

namespace {

constinit struct arena* first_arena GUARDED_BY(list_lock) = nullptr;

bool has_name(const char* name) REQUIRES(list_lock) {
  for (const struct arena* arena = first_arena; arena; arena = arena->next_arena) {
    if (strcmp(arena->name, name) == 0) return true;
  }
  return false;
}

void remove(struct arena& arena) REQUIRES(list_lock) {
  struct arena** place = &first_arena;
  while (*place != &arena) place = &(*place)->next_arena;
  *place = arena.next_arena;
}

void delist(struct arena& arena) EXCLUDES(list_lock) {
  Guard guard(list_lock);
  remove(arena);
}

bool cache_has_name(const char* name) EXCLUDES(list_lock) {
  kmem_cache* const cache = kmem_cache_find(name);
  if (cache) kmem_cache_release(cache);
  return cache != nullptr;
}

// Drops a reference. True if it was the last one; the arena has then left the list.
bool drop_reference(struct arena& arena) REQUIRES(list_lock) {
  if (--arena.references > 0) return false;
  remove(arena);
  return true;
}

}  // namespace

bool arena_impl::enlist(struct arena& arena, const char* name) {
  Guard guard(list_lock);
  if (has_name(name)) return false;
  format(arena.name, sizeof(arena.name), "%s", name);
  arena.references = 1;
  arena.next_arena = nullptr;  // enlist_uniquely may have tried another name before
  struct arena** end = &first_arena;
  while (*end) end = &(*end)->next_arena;
  *end = &arena;
  return true;
}

void arena_impl::announce(struct arena& arena) {
  Guard guard(list_lock);
  arena.announced = true;
}

// A name must be unique among arenas and caches. A new arena first enters the list of arenas, then
// searches the list of caches for its name. A new cache holds the lock of the list of caches while
// it searches the list of arenas and then enters the list of caches. So if an arena and a cache
// with the same name are created at the same time, at least one of them finds the other.
void arena_impl::enlist_uniquely(struct arena& arena, const char* name) {
  constexpr size_t kLongestNumber = 6;
  char candidate[ARENA_NAME_MAX];
  format(candidate, sizeof(candidate), "%s", name);
  for (unsigned number = 2;; number++) {
    // No arena may be called "ctl", because #mem/kmemtrace/ctl is the control file.
    // slab_os_name_taken() also knows the names of the classes of references.
    if (strcmp(candidate, "ctl") != 0 && !slab_os_name_taken(candidate) &&
        enlist(arena, candidate)) {
      if (!cache_has_name(candidate)) return;
      delist(arena);
    }
    format(candidate, sizeof(candidate), "%.*s.%u",
           static_cast<int>(sizeof(candidate) - 1 - kLongestNumber), name, number);
  }
}

struct arena* arena_next(struct arena* arena) {
  struct arena* next;
  bool last = false;
  {
    Guard guard(list_lock);
    next = arena ? arena->next_arena : first_arena;
    while (next && !next->announced) next = next->next_arena;
    if (next) next->references++;
    if (arena) last = drop_reference(*arena);
  }
  if (last) arena_impl::free_structure(*arena);
  return next;
}

struct arena* arena_walk_next(struct arena* arena) {
  list_lock.not_needed();  // nothing changes while the caller walks
  return arena ? arena->next_arena : first_arena;
}

struct arena* arena_find(const char* name) {
  Guard guard(list_lock);
  for (struct arena* arena = first_arena; arena; arena = arena->next_arena) {
    if (!arena->announced || strcmp(arena->name, name) != 0) continue;
    arena->references++;
    return arena;
  }
  return nullptr;
}

void arena_hold(struct arena* arena) {
  Guard guard(list_lock);
  arena->references++;
}

void arena_release(struct arena* arena) {
  bool last;
  {
    Guard guard(list_lock);
    last = drop_reference(*arena);
  }
  if (last) arena_impl::free_structure(*arena);
}

int arena_name_taken(const char* name) {
  Guard guard(list_lock);
  return has_name(name);
}
