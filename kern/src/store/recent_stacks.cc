#include "store/recent_stacks.h"

#include <new>

#include "store/trace_memory.h"

constinit RecentStack no_recent_stack;

namespace {

constexpr std::array<RecentStack*, kRecentStacks> none() {
  std::array<RecentStack*, kRecentStacks> stacks = {};
  stacks.fill(&no_recent_stack);
  return stacks;
}

constexpr std::array<RecentStacks, kMaxCpus> none_anywhere() {
  std::array<RecentStacks, kMaxCpus> all = {};
  for (RecentStacks& recent : all) recent.stacks = none();
  return all;
}

}  // namespace

constinit std::array<RecentStacks, kMaxCpus> recent_stacks = none_anywhere();

namespace {

// The pages of all CPUs are at most this part of the limit.
constexpr uint64_t kPartOfLimit = 16;

bool take_pages(RecentStacks& recent) {
  for (RecentPage*& place : recent.pages) {
    trace_memory_prepare();
    void* const page = trace_page_take();
    if (!page) return false;
    place = new (page) RecentPage;
  }
  for (size_t i = 0; i < kRecentStacks; i++)
    recent.stacks[i] = &(*recent.pages[i % kRecentPages])[i / kRecentPages];
  return true;
}

}  // namespace

void recent_stacks_open(uint32_t cpus) {
  if (cpus * kRecentPages * kPageSize * kPartOfLimit > trace_memory_limit()) return;
  for (uint32_t cpu = 0; cpu < cpus; cpu++) {
    if (take_pages(recent_stacks[cpu])) continue;
    recent_stacks_close();
    return;
  }
}

void recent_stacks_close() {
  for (RecentStacks& recent : recent_stacks) {
    recent.stacks = none();
    for (RecentPage*& page : recent.pages) {
      if (page) trace_page_free(page);
      page = nullptr;
    }
  }
}

void recent_stacks_forget() {
  for (RecentStack* const stack : recent_stacks[cpu_id()].stacks) stack->forget();
}
