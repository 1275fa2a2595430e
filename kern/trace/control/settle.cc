// Waits until the system has finished deferred work, so that `leaktest` sees only lasting
// allocations.
#include "trace/control/settle_impl.h"

#include <atomic>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/sleep.h"
#include "trace/trace.h"

namespace {

constexpr Nanoseconds kDeadline{5'000'000'000};
constexpr Nanoseconds kTick{1'000'000'000 / kTickHz};
constexpr unsigned kQuietTicks = 8;  // ticks without a change of live counts
constexpr unsigned kMaxDrains = 16;

using Drain = void (*)();
// Functions are added at boot and never removed.
constinit std::atomic<Drain> drains[kMaxDrains];
constinit std::atomic<unsigned> drain_count{0};

// A hash of the live counts of all sources.
uint64_t live_fingerprint() {
  uint64_t fingerprint = 0;
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    fingerprint = (fingerprint ^ source.live()) * 0x9e3779b97f4a7c15;
  }
  return fingerprint;
}

}  // namespace

void trace_register_settle(void (*drain)()) {
  const unsigned index = drain_count.load(std::memory_order_relaxed);
  ASSERT(index < kMaxDrains);
  drains[index].store(drain, std::memory_order_relaxed);
  drain_count.store(index + 1, std::memory_order_release);
}

Result<void> trace_settle() {
  const Nanoseconds deadline = monotonic_now() + kDeadline;
  const unsigned count = drain_count.load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; i++) drains[i].load(std::memory_order_relaxed)();
  uint64_t before = live_fingerprint();
  for (unsigned quiet = 0; quiet < kQuietTicks;) {
    if (monotonic_now() > deadline)
      return fail(Errno::ETIMEDOUT, "caches were still changing after 5 seconds");
    TRY(task_sleep_until(monotonic_now() + kTick));
    const uint64_t now = live_fingerprint();
    quiet = now == before ? quiet + 1 : 0;
    before = now;
  }
  return {};
}
