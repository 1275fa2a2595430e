// What can have a trace: see trace.h.
#include "lib/string.h"
#include "trace.h"

const char* TraceSource::name() const {
  return kmem_cache_name(cache());
}

size_t TraceSource::object_size() const {
  return kmem_cache_object_size(cache());
}

int TraceSource::flags() const {
  return kmem_cache_flags(cache());
}

bool TraceSource::is_zombie() const {
  return kmem_cache_is_zombie(cache()) != 0;
}

uint64_t TraceSource::live() const {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache(), &stats);
  return stats.live;
}

void TraceSource::hold() const {
  kmem_cache_hold(cache());
}

void TraceSource::release() const {
  kmem_cache_release(cache());
}

TraceSource TraceSource::next(TraceSource source) {
  return kmem_cache_next(source.cache());
}

TraceSource TraceSource::find(std::string_view name) {
  char terminated[KMEM_CACHE_NAME_MAX];
  if (name.size() >= sizeof(terminated)) return {};
  memcpy(terminated, name.data(), name.size());
  terminated[name.size()] = '\0';
  TraceSource source = kmem_cache_find(terminated);
  if (source && source.is_zombie()) {
    source.release();
    source = {};
  }
  return source;
}

void TraceSource::change_flags(int set, int clear) const {
  kmem_cache_master_flags(cache(), set, clear);
}

void TraceSource::change_cpu_flags(int set, int clear) const {
  kmem_cache_cpu_flags(cache(), set, clear);
}

trace_table** TraceSource::trace_slot() const {
  return kmem_cache_trace_slot(cache());
}
