#include "intern/recent_stacks_impl.h"

#include <new>
#include <utility>

#include "intern/recent_pages_impl.h"
#include "intern/trace_memory.h"

constinit RecentStack no_recent_stack;

namespace {

constexpr RecentPlaces make_empty() {
  RecentPlaces places = {};
  places.fill(&no_recent_stack);
  return places;
}
// The table of every CPU that has no page.
constinit RecentPlaces empty = make_empty();

constexpr std::array<RecentPlaces*, kMaxCpus> empty_anywhere() {
  std::array<RecentPlaces*, kMaxCpus> all = {};
  all.fill(&empty);
  return all;
}

// The first page of a CPU: its table, and the list of its other pages.
struct CpuPage {
  RecentPlaces places = make_empty();
  RecentPages<RecentStack> entries;
};
static_assert(sizeof(CpuPage) <= kPageSize && offsetof(CpuPage, places) == 0);

// The pages of all CPUs are together at most 1/kLimitDivisor of the limit of trace memory. If a
// CPU's part would be less than kLeastPages, no CPU gets a page. No CPU gets more than kMostPages.
constexpr uint64_t kLimitDivisor = 16, kLeastPages = 4, kMostPages = 48;
// The most pages of entries that a CPU may have. Changed only while no hook runs.
constinit uint64_t most_pages = 0;

// The entry at the nearest higher index that has an entry, cyclically; nullptr if no index has one.
RecentStack* entry_nearby(const RecentPlaces& places, size_t index) {
  for (size_t i = 1; i < kRecentPlaces; i++) {
    RecentStack* const entry = places[(index + i) % kRecentPlaces];
    if (entry != &no_recent_stack) return entry;
  }
  return nullptr;
}

}  // namespace

constinit std::array<RecentPlaces*, kMaxCpus> recent_places = empty_anywhere();

void recent_stacks_open(uint32_t cpus) {
  const uint64_t pages = trace_memory_limit() / kLimitDivisor / kPageSize / cpus;
  if (pages < kLeastPages) return;
  most_pages = std::min(pages, kMostPages) - 1;
  for (uint32_t cpu = 0; cpu < cpus; cpu++) {
    trace_memory_prepare();
    void* const page = trace_page_take();
    if (!page) return;
    recent_places[cpu] = &(new (page) CpuPage)->places;
  }
}

void recent_stacks_close() {
  for (RecentPlaces*& places : recent_places) {
    if (places == &empty) continue;
    auto* const page = reinterpret_cast<CpuPage*>(places);
    places = &empty;
    page->entries.release();
    trace_page_free(page);
  }
}

RecentStack* replace_recent(uint64_t frame_pointer, const Cpu& cpu) {
  if (recent_places[number_of(cpu.id)] == &empty) return nullptr;
  CpuPage& page = *reinterpret_cast<CpuPage*>(recent_places[number_of(cpu.id)]);
  const size_t index = recent_index(frame_pointer);
  RecentStack*& here = page.places[index];
  // Reuses an entry that holds no stack, because readdress() failed or the stack could not be
  // stored. Otherwise the set would fill with such entries.
  if (here->is_free() && here != &no_recent_stack) return here;
  for (size_t i = 1; i < kRecentWays && here != &no_recent_stack; i++)
    std::swap(here, page.places[index ^ i]);
  if (here != &no_recent_stack) return here;
  RecentStack* entry = page.entries.make(most_pages);
  if (!entry) entry = entry_nearby(page.places, index);
  if (entry) here = entry;
  return entry;
}

void recent_stacks_forget() {
  RecentPlaces* const places = recent_places[number_of(cpu_id())];
  if (places == &empty) return;
  *places = empty;
  reinterpret_cast<CpuPage*>(places)->entries.clear();
}
