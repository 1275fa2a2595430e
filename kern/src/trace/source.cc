// What can have a trace: see trace.h.
#include "lib/string.h"
#include "trace/trace.h"

static_assert(static_cast<int>(KMEM_CACHE_NAME_MAX) == static_cast<int>(ARENA_NAME_MAX));

const char* TraceSource::name() const {
  return arena() ? arena_name(arena()) : kmem_cache_name(cache());
}

size_t TraceSource::object_size() const {
  return arena() ? arena_quantum(arena()) : kmem_cache_object_size(cache());
}

int TraceSource::flags() const {
  return arena() ? arena_flags(arena()) : kmem_cache_flags(cache());
}

bool TraceSource::is_zombie() const {
  return (arena() ? arena_is_zombie(arena()) : kmem_cache_is_zombie(cache())) != 0;
}

uint64_t TraceSource::live() const {
  if (arena()) {
    struct arena_stats stats;
    arena_stats(arena(), &stats);
    return stats.direct_live;
  }
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache(), &stats);
  return stats.live;
}

void TraceSource::hold() const {
  if (arena()) {
    arena_hold(arena());
  } else {
    kmem_cache_hold(cache());
  }
}

void TraceSource::release() const {
  if (arena()) {
    arena_release(arena());
  } else {
    kmem_cache_release(cache());
  }
}

TraceSource TraceSource::next(TraceSource source) {
  if (!source.arena()) {
    if (kmem_cache* cache = kmem_cache_next(source.cache())) return cache;
  }
  return arena_next(source.arena());
}

TraceSource TraceSource::find(std::string_view name) {
  char terminated[KMEM_CACHE_NAME_MAX];
  if (name.size() >= sizeof(terminated)) return {};
  memcpy(terminated, name.data(), name.size());
  terminated[name.size()] = '\0';
  TraceSource source = kmem_cache_find(terminated);
  if (!source) source = arena_find(terminated);
  if (source && source.is_zombie()) {
    source.release();
    source = {};
  }
  return source;
}

void TraceSource::change_flags(int set, int clear) const {
  if (arena()) {
    arena_change_flags(arena(), set, clear);
  } else {
    kmem_cache_master_flags(cache(), set, clear);
  }
}

void TraceSource::change_cpu_flags(int set, int clear) const {
  if (cache()) kmem_cache_cpu_flags(cache(), set, clear);
}

void TraceSource::set_unused_flags(int set) const {
  if (cache()) kmem_cache_unused_flags(cache(), set);
}

trace_table** TraceSource::trace_slot() const {
  return arena() ? arena_trace_slot(arena()) : kmem_cache_trace_slot(cache());
}
