#include "store/recent_callers.h"

#include <algorithm>
#include <new>

#include "arch/x86_64/trap.h"
#include "store/trace_memory.h"

namespace {

using CallerPage = std::array<RecentCaller, kPageSize / sizeof(RecentCaller)>;
constexpr size_t kPages = 4;  // for each CPU
struct RecentCallers {
  std::array<CallerPage*, kPages> pages;  // or &no_callers
};

constinit CallerPage no_callers = {};

constexpr std::array<RecentCallers, kMaxCpus> none_anywhere() {
  std::array<RecentCallers, kMaxCpus> all = {};
  for (RecentCallers& recent : all) recent.pages.fill(&no_callers);
  return all;
}

// The pages of all CPUs are at most this part of the limit.
constexpr uint64_t kPartOfLimit = 16;

constinit bool wanted = false;  // changed while no hook runs

// What recent_callers.S knows.
constexpr size_t before_end(size_t offset) {
  return sizeof(TrapFrame) - offset;
}
static_assert(before_end(offsetof(TrapFrame, rsp)) == 16 &&
              before_end(offsetof(TrapFrame, rip)) == 40 &&
              before_end(offsetof(TrapFrame, vector)) == 56 &&
              before_end(offsetof(TrapFrame, rbp)) == 144);
static_assert(offsetof(Cpu, kernel_stack) == 8 && offsetof(Cpu, current) == 24 &&
              offsetof(Cpu, id) == 32 && offsetof(TaskHead, trace_call) == 56);
static_assert(offsetof(RecentCaller, rip) == 0 && offsetof(RecentCaller, vector) == 8 &&
              offsetof(RecentCaller, count) == 12 && offsetof(RecentCaller, rbp) == 16 &&
              offsetof(RecentCaller, caller) == 24);
static_assert(sizeof(RecentCallers) == 32 && kPages == 4 && std::tuple_size_v<CallerPage> == 32);

uint32_t index_of(const TrapFrame& entry) {
  return (static_cast<uint32_t>(entry.rsp) << 3 ^ static_cast<uint32_t>(entry.rip)) * 0x9e3779b1;
}

}  // namespace

extern "C" {
extern constinit std::array<RecentCallers, kMaxCpus> recent_callers;
constinit std::array<RecentCallers, kMaxCpus> recent_callers = none_anywhere();
}

void recent_callers_open(uint32_t cpus) {
  wanted = cpus * kPages * kPageSize * kPartOfLimit <= trace_memory_limit();
}

void recent_callers_close() {
  wanted = false;
  for (RecentCallers& recent : recent_callers) {
    for (CallerPage*& page : recent.pages) {
      if (page != &no_callers) trace_page_free(page);
      page = &no_callers;
    }
  }
}

void recent_callers_forget() {
  for (CallerPage* const page : recent_callers[cpu_id()].pages) {
    if (page == &no_callers) continue;
    for (RecentCaller& caller : *page) caller.count = 0;
  }
}

void keep_recent_caller(uint64_t caller, const uint64_t* program_counters,
                        const uint64_t* frame_pointers, size_t count, const Cpu& cpu) {
  const TrapFrame& entry = *(reinterpret_cast<const TrapFrame*>(cpu.kernel_stack) - 1);
  const size_t frames = count - 1;  // the first return address is not in a frame
  if (!wanted || frames < 1 || frames > RecentCaller::kMaxFrames || frame_pointers[count] != 0)
    return;
  const uint32_t index = index_of(entry);
  CallerPage*& page = recent_callers[cpu.id].pages[index >> 30];
  if (page == &no_callers) {
    void* const memory = trace_page_take();
    if (!memory) return;
    page = new (memory) CallerPage{};
  }
  RecentCaller& kept = (*page)[index >> 25 & 31];
  RecentCaller::Frame* frame = std::end(kept.frames) - frames;
  uint64_t widest = 0;
  for (size_t i = 1; i <= frames; i++) {
    const uint64_t to_next = i < frames ? frame_pointers[i + 1] - frame_pointers[i] : 0;
    widest |= to_next | program_counters[i];
    *frame++ = {static_cast<uint32_t>(to_next), static_cast<uint32_t>(program_counters[i])};
  }
  kept.rip = entry.rip;
  kept.vector = static_cast<uint32_t>(entry.vector);
  kept.count = widest > UINT32_MAX ? 0 : static_cast<uint32_t>(frames);
  kept.rbp = entry.rbp;
  kept.caller = caller;
}
