// Sources of traces: see trace.h.
#include "core/cpu.h"
#include "core/planted.h"
#include "lib/string.h"
#include "trace/trace.h"

static_assert(static_cast<int>(KMEM_CACHE_NAME_MAX) == static_cast<int>(ARENA_NAME_MAX));

const char* TraceSource::name() const {
  if (references()) return references()->name;
  return arena() ? arena_name(arena()) : kmem_cache_name(cache());
}

size_t TraceSource::object_size() const {
  if (references()) return 0;
  return arena() ? arena_quantum(arena()) : kmem_cache_object_size(cache());
}

int TraceSource::flags() const {
  if (references()) return references()->flags;
  return arena() ? arena_flags(arena()) : kmem_cache_flags(cache());
}

bool TraceSource::is_zombie() const {
  if (references()) return false;
  return (arena() ? arena_is_zombie(arena()) : kmem_cache_is_zombie(cache())) != 0;
}

uint64_t TraceSource::live() const {
  if (references()) {
    const RefTotals totals = ref_totals(ref_kind_of(*references()));
    return totals.taken - totals.put;
  }
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
  if (arena()) arena_hold(arena());
  if (cache()) kmem_cache_hold(cache());
}

void TraceSource::release() const {
  if (arena()) arena_release(arena());
  if (cache()) kmem_cache_release(cache());
}

TraceSource TraceSource::next(TraceSource source) {
  if (!source || source.cache()) {
    if (kmem_cache* cache = kmem_cache_next(source.cache())) return cache;
    source = {};
  }
  if (!source.references()) {
    if (struct arena* arena = arena_next(source.arena())) return arena;
    return ref_class_at(0);
  }
  return ref_class_at(static_cast<unsigned>(ref_kind_of(*source.references())) + 1);
}

TraceSource TraceSource::find(std::string_view name) {
  char terminated[KMEM_CACHE_NAME_MAX];
  if (name.size() >= sizeof(terminated)) return {};
  memcpy(terminated, name.data(), name.size());
  terminated[name.size()] = '\0';
  if (RefClass* const references = ref_class_find(terminated)) return references;
  TraceSource source = kmem_cache_find(terminated);
  if (!source) source = arena_find(terminated);
  if (source && source.is_zombie()) {
    source.release();
    source = {};
  }
  return source;
}

void TraceSource::change_flags(int set, int clear) const {
  if (references()) {
    references()->flags = (references()->flags | set) & ~clear;
  } else if (arena()) {
    arena_change_flags(arena(), set, clear);
  } else {
    kmem_cache_master_flags(cache(), set, clear);
  }
}

static void change_cpu_flags(Cpu& cpu, RefKind kind, int set, int clear) {
  RefCounts& counts = cpu.refs[static_cast<unsigned>(kind)];
  if (set & KMC_TRACED) counts.taken |= kRefTraced;
  if (clear & KMC_TRACED) counts.taken &= ~kRefTraced;
  if (set & KMC_EVER_TRACED) counts.put |= kRefTraced;
  if (clear & KMC_EVER_TRACED) counts.put &= ~kRefTraced;
}

void TraceSource::change_cpu_flags(int set, int clear) const {
  if (cache()) kmem_cache_cpu_flags(cache(), set, clear);
  if (references()) ::change_cpu_flags(this_cpu(), ref_kind_of(*references()), set, clear);
}

void TraceSource::set_unused_flags(int set) const {
  if (cache()) kmem_cache_unused_flags(cache(), set);
  if (!references()) return;
  for (const CpuId id : all_cpus()) ::change_cpu_flags(cpu(id), ref_kind_of(*references()), set, 0);
}

void trace_start_cpu() {
  if (planted(Planted::kLateFlags)) return;
  for (unsigned i = 0; RefClass* const references = ref_class_at(i); i++)
    ::change_cpu_flags(this_cpu(), ref_kind_of(*references), references->flags, 0);
}

trace_table** TraceSource::trace_slot() const {
  if (references()) return &references()->trace;
  return arena() ? arena_trace_slot(arena()) : kmem_cache_trace_slot(cache());
}
