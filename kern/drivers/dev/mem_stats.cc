#include "drivers/dev/mem_stats.h"

#include "arch/x86_64/kernel_tables.h"
#include "arena.h"
#include "core/ref.h"
#include "ns/page_cache.h"
#include "pages.h"
#include "slab.h"

namespace {

// Width of the names' column, indentation included.
constexpr int kNameWidth = 34;

const char* traced_flag(int flags) {
  if (flags & KMC_NOTRACE) return "never";
  if (flags & KMC_TRACED) return "running";
  return flags & KMC_EVER_TRACED ? "stopped" : "off";
}

[[gnu::noinline]] void print_cache(kmem_cache* cache, unsigned depth, Text& text) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  const int indent = static_cast<int>(2 * depth);
  text.print("%*s%-*s S %8lu %13lu %13lu %9lu %12lu %12lu %s\n", indent, "", kNameWidth - indent,
             kmem_cache_name(cache), stats.object_size, stats.total_bytes,
             stats.live * stats.object_size, stats.live, stats.allocations, stats.frees,
             traced_flag(kmem_cache_flags(cache)));
}

// Calls visit(cache) for each cache that is not destroyed.
template <typename Visit>
void for_each_cache(Visit visit) {
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    if (!kmem_cache_is_zombie(cache)) visit(cache);
  }
}

// Prints the arena, its caches, and the arenas that import from it.
// stack: recursion up to 3 deep, because no chain of imports has more than four arenas.
void print_arena_tree(struct arena* arena, unsigned depth, Text& text) {
  struct arena_stats stats;
  arena_stats(arena, &stats);
  const int indent = static_cast<int>(2 * depth);
  text.print("%*s%-*s A %8lu %13lu %13lu %9lu %12lu %12lu %s\n", indent, "", kNameWidth - indent,
             arena_name(arena), stats.quantum, stats.total_bytes, stats.direct_bytes,
             stats.direct_live, stats.direct_allocations, stats.direct_frees,
             traced_flag(arena_flags(arena)));
  for_each_cache([&](kmem_cache* cache) {
    if (kmem_cache_arena(cache) == arena) print_cache(cache, depth + 1, text);
  });
  for (struct arena* other = arena_next(nullptr); other; other = arena_next(other)) {
    if (arena_parent(other) == arena) print_arena_tree(other, depth + 1, text);
  }
}

void print_references(RefClass& references, Text& text) {
  const RefTotals totals = ref_totals(ref_kind_of(references));
  text.print("%-*s R %8u %13u %13u %9lu %12lu %12lu %s\n", kNameWidth, references.name, 0, 0, 0,
             totals.taken - totals.put, totals.taken, totals.put, traced_flag(references.flags));
}

// Returns the word in the column CHECKED. "left": checking has ended, but checked objects are still
// allocated and will be checked when freed.
const char* checked(const kmem_cache* cache, const struct kmem_cache_stats& stats) {
  if (!kmem_cache_can_be_checked(cache)) return "never";
  return stats.checked ? "on" : stats.checked_out > 0 ? "left" : "off";
}

[[gnu::noinline]] void print_slab_stats(kmem_cache* cache, Text& text) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  text.print(
      "%-32s %8lu %8lu %9lu %9lu %9lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %8lu %-7s "
      "%8lu %8lu\n",
      kmem_cache_name(cache), stats.object_size, stats.slabs, stats.objects_in_slabs, stats.live,
      stats.magazine_rounds, stats.magazine_size, stats.depot_full, stats.depot_empty,
      stats.hash_buckets, stats.hash_items, stats.failures, stats.magazine_resizes,
      stats.depot_contention, stats.depot_surplus, stats.depot_reaped, checked(cache, stats),
      stats.reports, stats.quarantined);
}

}  // namespace

void mem_print_kmemstat(Text& text) {
  text.print("%-*s T %8s %13s %13s %9s %12s %12s %s\n", kNameWidth, "NAME", "OBJSIZE", "TOTAL",
             "ALLOCATED", "LIVE", "ALLOCS", "FREES", "TRACED");
  for (struct arena* arena = arena_next(nullptr); arena; arena = arena_next(arena)) {
    if (!arena_parent(arena)) print_arena_tree(arena, 0, text);
  }
  for (unsigned i = 0; RefClass* const references = ref_class_at(i); i++)
    print_references(*references, text);
}

void mem_print_slab_stats(Text& text) {
  text.print("%-32s %8s %8s %9s %9s %9s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s %-7s %8s %8s\n",
             "NAME", "OBJSIZE", "SLABS", "OBJECTS", "LIVE", "MAGROUNDS", "MAGSIZE", "FULLMAGS",
             "EMPTYMAG", "BUCKETS", "HASHED", "FAILED", "RESIZES", "CONTEND", "SURPLUS", "REAPED",
             "CHECKED", "REPORTS", "QUARANT");
  for_each_cache([&](kmem_cache* cache) { print_slab_stats(cache, text); });
}

void mem_print_arena_stats(Text& text) {
  for (struct arena* arena = arena_next(nullptr); arena; arena = arena_next(arena)) {
    struct arena_stats stats;
    arena_stats(arena, &stats);
    const struct arena* parent = arena_parent(arena);
    text.print(
        "%s parent %s quantum %lu total %lu allocated %lu imported %lu live %lu allocations %lu "
        "frees %lu ",
        arena_name(arena), parent ? arena_name(parent) : "-", stats.quantum, stats.total_bytes,
        stats.allocated_bytes, stats.imported_bytes, stats.live, stats.allocations, stats.frees);
    text.print("failures %lu segments %lu buckets %lu hashed %lu direct %lu spans %lu",
               stats.failures, stats.segments, stats.hash_buckets, stats.hash_items,
               stats.direct_bytes, stats.span_bytes);
    if (stats.tag_bytes > 0) text.print(" tags %lu", stats.tag_bytes);
    text.print("\n");
    for (unsigned power = 0; power < ARENA_FREE_LISTS; power++) {
      const uint64_t count = arena_free_segments(arena, power);
      if (count == 0) continue;
      text.print("  free segments from %lu bytes: %lu\n", stats.quantum << power, count);
    }
  }
}

void mem_print_free(Text& text) {
  const MemoryTotals totals = memory_totals();
  const PageCacheCounts cached = page_cache_counts();
  text.print("total %lu\nused %lu\nfree %lu\nkernel_tables %lu\n", totals.total,
             totals.total - totals.free, totals.free, kernel_table_bytes());
  text.print("file_pages %lu\nmapped_file_pages %lu\n", cached.pages * kPageSize,
             cached.mapped * kPageSize);
}
