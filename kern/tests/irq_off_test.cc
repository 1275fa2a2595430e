// Tests the record of interrupts-off stretches. For each way to turn interrupts off, the stretch is
// recorded and attributed to the right function.
//
// The tests assert a stretch's least length. They assert its greatest length only under QEMU's
// icount, since otherwise the host may stop an emulated CPU at any time.
#include "core/irq_off.h"

#ifdef CONFIG_IRQ_OFF_TRACE
#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>
#include <utility>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "core/spinlock.h"
#include "core/symbols.h"
#include "kmalloc.h"
#include "sched/task.h"
#include "slab_os.h"
#include "tests/team.h"

namespace {

constexpr uint64_t kLong = 4'000'000;  // ticks of a long stretch
constexpr uint64_t kOurs = 200;        // under icount, measuring adds fewer ticks than this
constexpr uint8_t kTestVector = 0xe3;

void spin(uint64_t ticks) {
  const uint64_t end = tsc() + ticks;
  while (tsc() < end) cpu_relax();
}

[[gnu::noinline]] void by_scope(uint64_t ticks) {
  const InterruptsOff off;
  spin(ticks);
}
[[gnu::noinline]] void by_hand(uint64_t ticks) {
  interrupts_disable();
  spin(ticks);
  interrupts_enable();
}
constinit Spinlock lock{LockRank::kDevice};
[[gnu::noinline]] void by_lock(uint64_t ticks) {
  const Guard guard(lock);
  spin(ticks);
}
[[gnu::noinline]] void by_try(uint64_t ticks) {
  const TryGuard guard(lock);
  spin(ticks);
}
[[gnu::noinline]] void by_allocator(uint64_t ticks) {
  const uint64_t saved = slab_os_irq_save();
  spin(ticks);
  slab_os_irq_restore(saved);
}
// Nested guards do not end the outer stretch.
[[gnu::noinline]] void by_outer(uint64_t ticks) {
  const InterruptsOff off;
  spin(ticks / 2);
  by_scope(0);
  by_allocator(0);
  spin(ticks / 2);
}
// Switches with interrupts off to another task, which turns them on.
[[gnu::noinline]] void by_switch(uint64_t ticks) {
  const InterruptsOff off;
  spin(ticks);
  task_yield();
}
// Called with interrupts off. The stretch is attributed to this function, not to its caller.
[[gnu::noinline]] void by_call(void* ticks) {
  spin(*static_cast<uint64_t*>(ticks));
}
uint64_t handler_ticks = 0;
[[gnu::noinline]] void by_handler(TrapFrame&, void*) {
  spin(handler_ticks);
}

std::string_view function_of(uint64_t address) {
  const char* name = symbol_lookup(address).name;
  return name ? name : "";
}

// A copy of all recorded stretches.
class Stretches {
 public:
  Stretches()
      : count_(cpu_count() * kIrqOffPlaces),
        all_(static_cast<IrqOffStretch*>(
            kmalloc(count_ * sizeof(IrqOffStretch), KM_SLEEP | KM_ZERO))) {
    irq_off_read(all_);
  }
  ~Stretches() { kfree(all_); }
  Stretches(const Stretches&) = delete;
  Stretches& operator=(const Stretches&) = delete;

  template <typename Is>
  bool any(Is is) const {
    return std::any_of(all_, all_ + count_,
                       [&](const IrqOffStretch& s) { return s.ticks != 0 && is(s); });
  }
  // Returns the longest stretch that began in a function whose name contains `function`; nullptr if
  // there is none.
  const IrqOffStretch* of(std::string_view function) const {
    const IrqOffStretch* longest = nullptr;
    for (const IrqOffStretch* s = all_; s < all_ + count_; s++) {
      if (s->ticks == 0 || function_of(s->off).find(function) == std::string_view::npos) continue;
      if (!longest || s->ticks > longest->ticks) longest = s;
    }
    return longest;
  }

 private:
  const size_t count_;
  IrqOffStretch* const all_;
};

bool exact() {
  size_t length;
  return boot_option("icount", &length) && cpu_count() == 1;
}

// True if the longest stretch that began in `function` has at least `ticks`, and under icount less
// than `ticks` + kOurs.
bool seen(std::string_view function, uint64_t ticks) {
  const Stretches stretches;
  const IrqOffStretch* const found = stretches.of(function);
  return found && found->ticks >= ticks && (!exact() || found->ticks < ticks + kOurs);
}

}  // namespace

KTEST(irq_off_each_way_is_seen) {
  constexpr struct {
    const char* name;
    void (*run)(uint64_t ticks);
  } kWays[] = {{"by_scope", by_scope}, {"by_hand", by_hand},           {"by_lock", by_lock},
               {"by_try", by_try},     {"by_allocator", by_allocator}, {"by_outer", by_outer}};
  for (const auto& way : kWays) {
    irq_off_reset();
    way.run(kLong);
    const Stretches stretches;
    const IrqOffStretch* const found = stretches.of(way.name);
    if (!found || found->ticks < kLong) {
      ktest_fail(__FILE__, __LINE__, way.name);
      continue;
    }
    EXPECT(!exact() || found->ticks < kLong + kOurs);
    EXPECT(function_of(found->on) == function_of(found->off));
    EXPECT(found->pid == 0 && std::string_view(found->task) == current_task()->name);
    EXPECT(found->depth > 1 &&
           function_of(found->frames[0] - 1).find("each_way") != std::string_view::npos);
  }
}

KTEST(irq_off_goes_through_a_switch) {
  irq_off_reset();
  std::atomic<unsigned> arrived{0};
  Team team(
      [](void* argument) {
        auto& here = *static_cast<std::atomic<unsigned>*>(argument);
        here++;
        while (here < 2) task_yield();
        by_switch(kLong);
      },
      &arrived);
  for (int i = 0; i < 2; i++) team.add(kBootCpu);
  team.join();
  const Stretches stretches;
  EXPECT(stretches.any([](const IrqOffStretch& s) {
    return function_of(s.off).find("by_switch") != std::string_view::npos &&
           function_of(s.on) != function_of(s.off) && s.ticks >= kLong && s.cpu == kBootCpu;
  }));
}

KTEST(irq_off_is_the_handlers_not_who_calls_it) {
  EXPECT(interrupt_register_vector(kTestVector, "irq_off_test", by_handler, nullptr).ok());
  handler_ticks = kLong;
  irq_off_reset();
  interrupt_raise_self(kTestVector);
  EXPECT(seen("by_handler", kLong));
  uint64_t ticks = kLong;
  on_each_cpu(by_call, &ticks);
  EXPECT(seen("by_call", kLong));
}

KTEST(irq_off_forgets) {
  by_scope(kLong);
  EXPECT(seen("by_scope", kLong));
  irq_off_reset();
  const Stretches stretches;
  EXPECT(!stretches.of("by_scope"));
}

namespace {

// An entry of a CPU's table belongs to a pair of code addresses: where interrupts went off, and
// where they came on. These functions make stretches with more such pairs than the table has
// entries. Each stretch is longer than the one before.
constexpr size_t kMany = kIrqOffPlaces + 4;
constexpr uint64_t kStep = kLong / 16;
template <size_t kNumber>
[[gnu::noinline]] void numbered() {
  const InterruptsOff off;
  spin((kNumber + 1) * kStep);
}
template <size_t... kNumbers>
constexpr std::array<void (*)(), kMany> make_numbered(std::index_sequence<kNumbers...>) {
  return {numbered<kNumbers>...};
}
constexpr auto kNumbered = make_numbered(std::make_index_sequence<kMany>());

uint64_t start_of(uint64_t address) {
  return address - symbol_lookup(address).offset;
}

}  // namespace

KTEST(irq_off_keeps_the_longest) {
  {
    const PreemptOff one_table;
    irq_off_reset();
    for (auto* run : kNumbered) run();
  }
  const Stretches stretches;
  size_t kept = 0;
  for (size_t i = 0; i < kMany; i++) {
    const bool here = stretches.any([i](const IrqOffStretch& s) {
      return start_of(s.off) == reinterpret_cast<uint64_t>(kNumbered[i]) &&
             s.ticks >= (i + 1) * kStep;
    });
    kept += here;
    EXPECT(!exact() || here == (i >= kMany - kIrqOffPlaces));
  }
  // If the host stops the CPU meanwhile, other stretches become long, and take entries of the
  // table.
  EXPECT(kept <= kIrqOffPlaces && kept >= kIrqOffPlaces / 2);
}
#endif
