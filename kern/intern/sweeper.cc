#include "intern/sweeper.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/planted.h"
#include "intern/current_context.h"
#include "intern/trace_memory.h"

namespace {

// A sweep is due only if at least this many entries were added since the last sweep.
constexpr uint32_t kLeast = 384;
// When memory is short for a table, fewer additions make a sweep due: 1/kPartIfShort of the entries
// that the last sweep left, but at least kLeastIfShort. Memory is short for a table if trace memory
// is short and less than 1/kPartIfShort of the table's own bytes are free.
constexpr uint32_t kLeastIfShort = 64;
constexpr uint32_t kPartIfShort = 8;

using Retainer = void (*)(Retained& retained);
// Retainers are added at boot and never removed.
constinit Retainer retainers[4] = {};
constinit unsigned retainer_count = 0;

// Changed with trace_sweep_lock held.
constinit std::atomic<uint64_t> sweeps{0}, forgotten{0};

// The time until which no tick may begin a sweep. A sweep costs time for each record, and frees
// memory only if records are gone. So after a sweep follows a rest of kRest times its length.
constexpr uint64_t kRest = 16;
constinit std::atomic<uint64_t> rests_until{0};

bool is_due(const InternTable::Fill& fill, bool memory_is_short) {
  const bool is_short = memory_is_short && fill.bytes_free < fill.bytes_held / kPartIfShort;
  const uint32_t more = is_short ? std::max(kLeastIfShort, fill.survivors / kPartIfShort)
                                 : std::max(kLeast, fill.survivors);
  return fill.refused || fill.entries >= fill.survivors + more;
}

void round() {
  on_each_cpu([](void*) {}, nullptr);
}

void retain_what_is_used(uint32_t sweep) {
  Retained retained(trace_stacks, trace_contexts);
  if (!planted(Planted::kSweepForgetsRoot)) {
    for (unsigned i = 0; i < retainer_count; i++) retainers[i](retained);
  }
  trace_retain_interrupts(retained);
  trace_users_retain(TableUser::Holds::kOriginals, sweep, retained);
  trace_readings_wait();
  trace_users_retain(TableUser::Holds::kCopies, sweep, retained);
}

void sweep_pass(InternTable::Pass pass) {
  while (trace_stacks.sweep(pass)) {
  }
  while (trace_contexts.sweep(pass)) {
  }
  round();
}

uint32_t entries() {
  return trace_stacks.fill().entries + trace_contexts.fill().entries;
}

}  // namespace

void trace_sweep() {
  const MutexGuard guard(trace_sweep_lock);
  if (!trace_users_any()) return;
  const Nanoseconds begin = monotonic_now();
  const uint64_t number = sweeps.load(std::memory_order_relaxed) + 1;
  trace_stacks.begin_epoch();
  trace_contexts.begin_epoch();
  trace_users_forget_recent();
  retain_what_is_used(static_cast<uint32_t>(number));
  const uint32_t before = entries();
  sweep_pass(InternTable::Pass::kReferring);
  sweep_pass(InternTable::Pass::kReferred);
  const uint32_t after = entries();
  while (trace_stacks.reuse()) {
  }
  while (trace_contexts.reuse()) {
  }
  forgotten.fetch_add(before - std::min(before, after), std::memory_order_relaxed);
  sweeps.store(number, std::memory_order_relaxed);
  const Nanoseconds end = monotonic_now();
  rests_until.store(end.value + kRest * (end - begin).value, std::memory_order_relaxed);
}

bool trace_sweep_wanted() {
  if (!trace_users_any()) return false;
  const bool memory_is_short = trace_memory_short();
  return (is_due(trace_stacks.fill(), memory_is_short) ||
          is_due(trace_contexts.fill(), memory_is_short)) &&
         monotonic_now().value >= rests_until.load(std::memory_order_relaxed);
}

TraceSweeps trace_sweeps() {
  return {sweeps.load(std::memory_order_relaxed), forgotten.load(std::memory_order_relaxed)};
}

void trace_register_retainer(Retainer retain) {
  ASSERT(retainer_count < std::size(retainers));
  retainers[retainer_count++] = retain;
}
