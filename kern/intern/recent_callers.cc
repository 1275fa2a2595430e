#include "intern/recent_callers.h"

#include <algorithm>
#include <new>
#include <utility>

#include "arch/x86_64/trap.h"
#include "intern/recent_pages_impl.h"
#include "intern/trace_memory.h"

namespace {

constexpr size_t kWays = 4, kSets = kPageSize / (kWays * sizeof(RecentCaller*));
using Set = std::array<RecentCaller*, kWays>;  // the newest entry first
using Sets = std::array<Set, kSets>;

// An entry that matches nothing.
constexpr RecentCaller nobody() {
  RecentCaller caller = {};
  caller.vector = UINT32_MAX;
  return caller;
}
constinit RecentCaller no_caller = nobody();
constexpr Sets make_empty() {
  Sets sets = {};
  for (Set& set : sets) set.fill(&no_caller);
  return sets;
}
// Used as the table of each CPU for which no table has been allocated yet.
alignas(sizeof(Set)) constinit Sets empty = make_empty();

constexpr std::array<Sets*, kMaxCpus> empty_anywhere() {
  std::array<Sets*, kMaxCpus> all = {};
  all.fill(&empty);
  return all;
}

constinit std::array<RecentPages<RecentCaller>, kMaxCpus> recent_pages = {};

// The pages of all CPUs are together at most 1/kLimitDivisor of the limit of trace memory.
constexpr uint64_t kLimitDivisor = 16;
// The most pages of entries that a CPU may have. Changed only while no hook runs.
constinit uint64_t most_pages = 0;

// Checks of the offsets in recent_callers.S.
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
              offsetof(RecentCaller, rbp) == 16 && offsetof(RecentCaller, caller) == 24 &&
              offsetof(RecentCaller, compare) == 32 && offsetof(RecentCaller, end) == 40 &&
              offsetof(RecentCaller, next) + sizeof(RecentCaller::next) == 184 &&
              offsetof(RecentCaller, return_address) + sizeof(RecentCaller::return_address) == 248);
static_assert(sizeof(Set) == 32 && kSets * sizeof(Set) == 0x1000);

uint32_t index_of(const TrapFrame& entry) {
  return (entry.rsp << 2 ^ entry.rip) / sizeof(Set) % kSets;
}

}  // namespace

extern "C" {
extern constinit std::array<Sets*, kMaxCpus> recent_callers;
constinit std::array<Sets*, kMaxCpus> recent_callers = empty_anywhere();
}

namespace {

// Makes room for a new entry, which becomes the newest of its set; the oldest entry of a full set
// is reused. nullptr if there is no memory.
RecentCaller* newest_entry(uint32_t index, const Cpu& cpu) {
  Sets*& sets = recent_callers[number_of(cpu.id)];
  if (sets == &empty) {
    void* const page = most_pages > 0 ? trace_page_take() : nullptr;
    if (!page) return nullptr;
    sets = new (page) Sets(empty);
  }
  Set& set = (*sets)[index];
  RecentCaller* entry = set.back();
  if (entry == &no_caller) entry = recent_pages[number_of(cpu.id)].make(most_pages);
  if (!entry) return nullptr;
  std::copy_backward(set.begin(), set.end() - 1, set.end());
  return set.front() = entry;
}

}  // namespace

void recent_callers_open(uint32_t cpus) {
  const uint64_t pages = trace_memory_limit() / kLimitDivisor / kPageSize / cpus;
  most_pages = pages > 0 ? pages - 1 : 0;
}

void recent_callers_close() {
  most_pages = 0;
  for (uint32_t cpu = 0; cpu < kMaxCpus; cpu++) {
    if (recent_callers[cpu] == &empty) continue;
    trace_page_free(std::exchange(recent_callers[cpu], &empty));
    recent_pages[cpu].release();
  }
}

void recent_callers_forget() {
  const uint32_t cpu = number_of(cpu_id());
  if (recent_callers[cpu] == &empty) return;
  *recent_callers[cpu] = empty;
  recent_pages[cpu].clear();
}

void keep_recent_caller(TraceCaller caller, const uint64_t* program_counters,
                        const uint64_t* frame_pointers, size_t count, bool cut, const Cpu& cpu) {
  const TrapFrame& entry = *(reinterpret_cast<const TrapFrame*>(cpu.kernel_stack) - 1);
  const size_t frames = count - 1;  // the first return address is not in a frame
  if (frames < 1 || frames > RecentCaller::kMaxFrames || (!cut && frame_pointers[count] != 0))
    return;
  // RecentCaller has 32 bits for a return address.
  const auto is_wide = [](uint64_t address) { return address > UINT32_MAX; };
  if (std::any_of(program_counters + 1, program_counters + count, is_wide)) return;
  RecentCaller* const place = newest_entry(index_of(entry), cpu);
  if (!place) return;
  RecentCaller& kept = *place;
  for (size_t i = 1, place = RecentCaller::kMaxFrames - frames; i <= frames; i++, place++) {
    kept.next[place] = i < frames ? frame_pointers[i + 1] : 0;
    kept.return_address[place] = static_cast<uint32_t>(program_counters[i]);
  }
  kept.rip = entry.rip;
  kept.vector = static_cast<uint32_t>(entry.vector);
  kept.stack = kept.pair = StackId::kNone;
  kept.rbp = entry.rbp;
  kept.caller = caller;
  kept.compare = recent_caller_compare[frames - 1];
  kept.end = cut ? 0 : UINT64_MAX;
}
