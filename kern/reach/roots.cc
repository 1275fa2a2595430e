// Roots: words from which everything in use can be reached.
//
// - All static data, including the structures of CPUs and idle tasks. Excluded are the boot stacks
//   at the end of static data, and variables declared NOT_ROOTS (core/not_roots.h).
// - The interrupted context of each CPU: its stack from where the CPU stopped, with its registers
//   (stop_impl.h).
// - The stacks of tasks that do not run. The scheduler shows these stacks.
// - Page tables of the kernel and the first stacks of CPUs, for which the kernel stores physical
//   addresses.
//
// While a page is in transit between the arena and a page table, registers and stacks may contain
// only its physical address or its page-table entry, and no pointer to the page. So on stacks a
// physical address and a page-table entry count as pointers, if the page belongs to an object that
// consists of whole pages.
#include "reach/roots_impl.h"

#include "arch/x86_64/table_walk.h"
#include "core/cpu.h"
#include "core/log.h"
#include "reach/stop_impl.h"

extern "C" const char data_start[], not_roots_start[], not_roots_end[], boot_stacks[];

namespace {

constexpr unsigned kMaxWalkers = 8;
struct CacheWalker {
  const kmem_cache* cache;
  reach::Walker walk;
};
// Set at boot.
constinit CacheWalker walkers[kMaxWalkers] = {};
constinit unsigned walker_count = 0;
constinit ReachProvider* providers = nullptr;

void visit_page(PhysAddr page, void* visitor) {
  static_cast<ReachVisitor*>(visitor)->page(page);
}

}  // namespace

void reach_register(ReachProvider& provider) {
  provider.next = providers;
  providers = &provider;
}

void reach_register_walker(kmem_cache* cache, void (*walk)(const void*, ReachVisitor&)) {
  ASSERT(walker_count < kMaxWalkers);
  walkers[walker_count++] = {cache, walk};
}

namespace reach {

Walker find_walker(const kmem_cache* cache) {
  for (const CacheWalker& walker : walkers) {
    if (walker.cache == cache) return walker.walk;
  }
  return nullptr;
}

void hide_all(ReachVisitor& visitor) {
  for (const ReachProvider* provider = providers; provider; provider = provider->next) {
    if (provider->hide) provider->hide(visitor);
  }
}

void visit_roots(ReachVisitor& visitor) {
  visitor.words(data_start, not_roots_start);
  visitor.words(not_roots_end, boot_stacks);
  for (const CpuId id : all_cpus()) {
    if (cpu(id).online) visitor.stack(*cpu(id).current, stopped_stack(id), cpu(id).kernel_stack);
  }
  walk_kernel_tables(visit_page, &visitor);
  walk_cpu_stacks(visit_page, &visitor);
  for (const ReachProvider* provider = providers; provider; provider = provider->next) {
    if (provider->roots) provider->roots(visitor);
  }
}

int describe_provided(uint64_t address, char* buffer, size_t size) {
  for (const ReachProvider* provider = providers; provider; provider = provider->next) {
    if (!provider->describe) continue;
    if (const int length = provider->describe(address, buffer, size)) return length;
  }
  return 0;
}

int meaning_provided(const kmem_cache* cache, const void* object, char* buffer, size_t size) {
  for (const ReachProvider* provider = providers; provider; provider = provider->next) {
    if (!provider->meaning) continue;
    if (const int length = provider->meaning(cache, object, buffer, size)) return length;
  }
  return 0;
}

}  // namespace reach
