// Probes on kernel functions, while all CPUs call them.
#include <array>
#include <atomic>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/text_patch.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "core/probe_guard.h"
#include "kmalloc.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "probe/kernel_probes.h"
#include "probe/places_impl.h"
#include "probe/probe.h"
#include "tests/team.h"

namespace {

// --- Probed functions.

[[gnu::noipa]] uint64_t probed(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                               uint64_t f) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}
uint64_t call_probed(uint64_t a) {
  return probed(a, 1, 2, 3, 4, 5);
}
constexpr uint64_t kConstantPart = 2 + 6 + 12 + 20 + 30;

[[gnu::noipa]] uint64_t probed_other(uint64_t a) {
  return a + 1;
}

// This function has several returns, at several depths.
[[gnu::noipa]] uint64_t factorial(uint64_t n) {
  if (n == 0) return 1;
  const uint64_t below = factorial(n - 1);
  if (n % 2) return n * below;
  keep_frame();
  return below * n;
}

[[gnu::noinline]] NOT_PROBED uint64_t not_probed(uint64_t a) {
  keep_frame();
  return a;
}

uint32_t find_function(uint64_t address) {
  for (uint32_t i = 0; i < kernel_function_count(); i++) {
    if (kernel_function(i).address == address) return i;
  }
  return UINT32_MAX;
}
template <typename Function>
uint32_t index_of(Function* function) {
  return find_function(reinterpret_cast<uint64_t>(function));
}

// --- Consumers.

struct Counting : ProbeConsumer {
  void hit(const ProbeHit& hit) override {
    if (interrupts_enabled() || hit.user) wrong.fetch_add(1);
    (hit.returned ? returns : calls).fetch_add(1);
    arguments.fetch_add(hit.returned ? 0 : hit.registers->argument(0));
    results.fetch_add(hit.returned ? hit.registers->result() : 0);
  }
  std::atomic<uint64_t> calls{0}, returns{0}, wrong{0}, arguments{0}, results{0};
};

// Checks that a stack walk from each hit finds the probed function and its caller.
struct Walking : Counting {
  void hit(const ProbeHit& hit) override {
    Counting::hit(hit);
    if (hit.tag == target) (hit.returned ? target_returns : target_calls).fetch_add(1);
    uint64_t frames[2];
    const size_t count = walk_kernel_stack(hit.frame_pointer, frames, 2);
    const uint64_t return_address = *reinterpret_cast<const uint64_t*>(hit.stack_pointer);
    // Index of the caller in `frames`. A walk from the first function of a task finds no caller.
    const size_t caller = hit.returned ? 0 : 1;
    if (!hit.returned &&
        (count == 0 || frames[0] != probe_place_address(hit.tag) + kTextEntryBytes))
      wrong.fetch_add(1);
    if (count > caller && frames[caller] != return_address) wrong.fetch_add(1);
  }
  uint32_t target = UINT32_MAX;
  std::atomic<uint64_t> target_calls{0}, target_returns{0};
};

void arm(ProbeConsumer& consumer, uint32_t function, bool returns = false, uint32_t tag = 0) {
  const KernelProbe probe = {function, tag, returns};
  EXPECT(kernel_probes_arm(consumer, {&probe, 1}).ok());
}

void arm_everything(ProbeConsumer& consumer, bool returns) {
  const uint32_t count = kernel_function_count();
  auto* probes = static_cast<KernelProbe*>(kmalloc(count * sizeof(KernelProbe), KM_SLEEP));
  EXPECT(probes);
  if (!probes) return;
  for (uint32_t i = 0; i < count; i++) probes[i] = {i, i, returns};
  EXPECT(kernel_probes_arm(consumer, {probes, count}).ok());
  kfree(probes);
}

// --- Callers.

struct Callers {
  static constexpr uint64_t kForever = UINT64_MAX;
  explicit Callers(uint64_t times) : times(times), team(call, this) {
    for (const CpuId cpu : all_cpus()) team.add(cpu);
  }
  static void call(void* argument) {
    auto* self = static_cast<Callers*>(argument);
    for (uint64_t i = 0; i < self->times && !self->stop; i++) {
      if (call_probed(i) != i + kConstantPart) self->wrong_results++;
      self->calls++;
    }
  }
  const uint64_t times;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> calls{0}, wrong_results{0};
  Team team;
};

}  // namespace

KTEST(kernel_probes_table) {
  EXPECT(kernel_function_count() > 500);
  uint64_t before = 0;
  for (uint32_t i = 0; i < kernel_function_count(); i++) {
    const KernelFunction function = kernel_function(i);
    EXPECT(function.address > before && function.consumers == 0);
    EXPECT(function.name && *function.name);
    EXPECT(text_byte(function.address) == kTextNop);
    before = function.address;
  }
  for (uint32_t i = 0; i < probe_return_count; i++)
    EXPECT(text_byte(probe_return_address(i)) == kTextReturn);
  const uint32_t index = index_of(probed);
  EXPECT(index < kernel_function_count());
  EXPECT(strcmp(kernel_function(index).name, "probed") == 0);
  EXPECT(index_of(not_probed) == UINT32_MAX && not_probed(5) == 5);
}

KTEST(kernel_probes_count_exactly) {
  const uint64_t text = kernel_text_checksum();
  constexpr uint64_t kTimes = 5'000;
  Counting counting;
  arm(counting, index_of(probed));
  EXPECT(kernel_function(index_of(probed)).consumers == 1);
  EXPECT(kernel_text_checksum() != text);
  Callers callers(kTimes);
  callers.team.join();
  kernel_probes_disarm(counting);
  const uint64_t calls = kTimes * cpu_count();
  EXPECT(counting.calls == calls && counting.returns == 0 && counting.wrong == 0 &&
         counting.kept_out == 0);
  EXPECT(counting.arguments == cpu_count() * kTimes * (kTimes - 1) / 2);
  EXPECT(callers.wrong_results == 0);
  EXPECT(call_probed(1) == 1 + kConstantPart && counting.calls == calls);
  EXPECT(kernel_text_checksum() == text);
}

KTEST(kernel_probes_go_on_and_off_while_all_call) {
  const uint64_t text = kernel_text_checksum();
  Callers callers(Callers::kForever);
  for (unsigned i = 0; i < 40; i++) {
    Counting counting;
    const bool returns = i % 2;
    arm(counting, index_of(probed), returns);
    for (unsigned n = 0; n < 10; n++) call_probed(n);
    EXPECT(counting.calls >= 10);
    EXPECT(returns ? counting.returns >= 10 : counting.returns == 0);
    kernel_probes_disarm(counting);
    const uint64_t calls = counting.calls;
    for (unsigned n = 0; n < 10; n++) call_probed(n);
    EXPECT(counting.calls == calls && counting.wrong == 0);
  }
  callers.stop = true;
  callers.team.join();
  EXPECT(callers.calls > 0 && callers.wrong_results == 0);
  EXPECT(kernel_text_checksum() == text);
}

KTEST(kernel_probes_of_several_consumers) {
  const uint64_t text = kernel_text_checksum();
  Counting first, second, third;
  const uint32_t function = index_of(probed);
  const auto call = [](unsigned times) {
    for (unsigned i = 0; i < times; i++) call_probed(i);
  };
  arm(first, function);
  call(1);
  arm(second, function, true);
  call(10);
  const KernelProbe twice[] = {
      {function, 0, false}, {index_of(probed_other), 1, false}, {function, 2, false}};
  EXPECT(kernel_probes_arm(third, twice).ok());
  EXPECT(kernel_function(function).consumers == 3);
  call(100);
  kernel_probes_disarm(second);
  call(1000);
  kernel_probes_disarm(first);
  call(10'000);
  kernel_probes_disarm(third);
  kernel_probes_disarm(third);  // the consumer has no probes to disarm
  call(100'000);
  EXPECT(first.calls == 1111 && first.returns == 0);
  EXPECT(second.calls == 110 && second.returns == 110);
  EXPECT(third.calls == 2 * 11'100);
  EXPECT(kernel_probes_arm(third, {}).ok());
  kernel_probes_disarm(third);
  EXPECT(kernel_text_checksum() == text);
}

KTEST(kernel_probes_keep_out_what_a_consumer_does) {
  struct Calling : ProbeConsumer {
    void hit(const ProbeHit& hit) override {
      if (hit.tag == 1) told_of_other++;
      hits++;
      call_probed(1);
      call_probed(2);
      probed_other(3);
    }
    uint64_t hits = 0, told_of_other = 0;
  } calling;
  const KernelProbe probes[] = {{index_of(probed), 0, true}, {index_of(probed_other), 1, true}};
  EXPECT(kernel_probes_arm(calling, probes).ok());
  EXPECT(call_probed(7) == 7 + kConstantPart);
  // The two hits are a call and a return. In each hit the consumer calls probed functions three
  // times. Three calls and three returns for each hit are kept out: 12 in total.
  EXPECT(calling.hits == 2 && calling.told_of_other == 0 && calling.kept_out == 12);
  {
    const ProbesOff off;
    call_probed(8);
  }
  EXPECT(calling.hits == 2 && calling.kept_out == 14);
  kernel_probes_disarm(calling);
  EXPECT(this_cpu().probes_off == 0);
}

KTEST(kernel_probes_pair_returns_with_calls) {
  static constexpr uint64_t kDepth = 8;
  struct Pairing : ProbeConsumer {
    void hit(const ProbeHit& hit) override {
      if (!hit.returned) {
        wrong += hit.registers->argument(0) != kDepth - depth;
        wrong += depth > 0 && hit.stack_pointer >= pointers[depth - 1];
        pointers[depth++] = hit.stack_pointer;
        return;
      }
      wrong += depth == 0 || hit.stack_pointer != pointers[--depth];
      results[returns++] = hit.registers->result();
    }
    std::array<uint64_t, kDepth + 1> pointers, results;
    uint64_t depth = 0, returns = 0, wrong = 0;
  } pairing;
  arm(pairing, index_of(factorial), true);
  EXPECT(factorial(kDepth) == 40320);
  kernel_probes_disarm(pairing);
  EXPECT(pairing.wrong == 0 && pairing.depth == 0 && pairing.returns == kDepth + 1);
  uint64_t expected = 1;
  for (uint64_t i = 0; i <= kDepth; i++) {
    expected *= i ? i : 1;
    EXPECT(pairing.results[i] == expected);
  }
}

KTEST(kernel_probes_with_anything_held) {
  Counting counting;
  Spinlock innermost{LockRank::kLog}, taken_by_hit{LockRank::kProcessTable};
  struct Locking : ProbeConsumer {
    explicit Locking(Spinlock& lock) : lock(lock) {}
    void hit(const ProbeHit&) override {
      const Guard guard(lock);
      hits++;
    }
    Spinlock& lock;
    uint64_t hits = 0;
  } locking(taken_by_hit);
  arm(counting, index_of(probed), true);
  arm(locking, index_of(probed), true);
  {
    const Guard guard(innermost);
    call_probed(1);
    EXPECT(!interrupts_enabled());
  }
  EXPECT(interrupts_enabled());
  static constinit std::atomic<unsigned> interrupts{0};
  static bool registered = false;
  if (!registered) {
    registered = interrupt_register_vector(
                     kVectorDebugSelf - 1, "ktest",
                     [](TrapFrame&, void*) {
                       call_probed(2);
                       interrupts++;
                     },
                     nullptr)
                     .ok();
  }
  EXPECT(registered);
  interrupt_raise_self(kVectorDebugSelf - 1);
  while (interrupts == 0) asm volatile("pause");
  interrupts = 0;
  kernel_probes_disarm(counting);
  kernel_probes_disarm(locking);
  EXPECT(counting.calls == 2 && counting.returns == 2 && counting.wrong == 0 && locking.hits == 4);
}

namespace {

// Does work of many kinds. Counts its calls of the probed function in `*argument`.
void work(void* argument) {
  auto& calls = *static_cast<std::atomic<uint64_t>*>(argument);
  kmem_cache* cache =
      kmem_cache_create("ktest_probes", 200, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  for (unsigned round = 0; round < 20; round++) {
    void* objects[20];
    for (void*& object : objects) object = kmem_cache_alloc(cache, KM_ATOMIC);
    void* large = kmalloc(20'000, KM_SLEEP);
    EXPECT(call_probed(round) == round + kConstantPart);
    calls++;
    if (round % 8 == 0) static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{100'000}));
    task_yield();
    kfree(large);
    for (void* object : objects) kmem_cache_free(cache, object);
    Team short_lived([](void*) {}, nullptr);
    short_lived.add();
    short_lived.join();
  }
  kmem_cache_destroy(cache);
}

void probe_everything(bool returns, unsigned times) {
  task_drain_dead();
  const uint64_t text = kernel_text_checksum();
  for (unsigned i = 0; i < times; i++) {
    Walking walking;
    walking.target = index_of(probed);
    std::atomic<uint64_t> calls{0};
    arm_everything(walking, returns);
    Team team(work, &calls);
    for (unsigned cpu = 0; cpu < 2 * cpu_count(); cpu++) team.add();
    team.join();
    kernel_probes_disarm(walking);
    EXPECT(walking.wrong == 0);
    EXPECT(walking.target_calls == calls && walking.target_returns == (returns ? calls.load() : 0));
    klog("%lu calls and %lu returns of all functions, %lu kept out", walking.calls.load(),
         walking.returns.load(), walking.kept_out.load());
    EXPECT(walking.calls > 100 * calls);
    EXPECT(kernel_text_checksum() == text);
  }
  task_drain_dead();  // frees tasks that ended while everything was probed
}

}  // namespace

KTEST(kernel_probes_on_everything) {
  probe_everything(false, 2);
}

KTEST(kernel_probes_on_everything_with_returns) {
  probe_everything(true, 2);
}

KTEST(kernel_probes_on_everything_on_and_off) {
  const uint64_t text = kernel_text_checksum();
  std::atomic<uint64_t> calls{0};
  Team team(work, &calls);
  for (unsigned cpu = 0; cpu < 2 * cpu_count(); cpu++) team.add();
  for (unsigned i = 0; i < 10; i++) {
    Walking walking;
    arm_everything(walking, i % 2);
    call_probed(i);
    kernel_probes_disarm(walking);
    EXPECT(walking.calls > 0 && walking.wrong == 0);
  }
  team.join();
  EXPECT(kernel_text_checksum() == text);
  task_drain_dead();
}

KTEST(kernel_probes_without_memory) {
  static constinit const Task* refused = nullptr;
  static constinit std::atomic<uint64_t> asked{0};
  refused = current_task();
  asked = 0;
  const uint64_t text = kernel_text_checksum();
  EXPECT(kmem_inject_begin([](kmem_inject_site, const void*, size_t, int) -> int {
    if (this_cpu().current != refused || this_cpu().interrupt_depth > 0) return 0;
    asked++;
    return 1;
  }));
  Counting counting;
  const KernelProbe probe = {index_of(probed), 0, true};
  const Result<void> armed = kernel_probes_arm(counting, {&probe, 1});
  kmem_inject_end();
  // Arming makes a single allocation, so its failure is the only one possible.
  EXPECT(!armed.ok() && armed.error() == Errno::ENOMEM && asked == 1);
  EXPECT(kernel_text_checksum() == text && kernel_function(probe.function).consumers == 0);
  call_probed(1);
  EXPECT(counting.calls == 0);
  EXPECT(kernel_probes_arm(counting, {&probe, 1}).ok());
  call_probed(1);
  EXPECT(counting.calls == 1 && counting.returns == 1);
  kernel_probes_disarm(counting);
  EXPECT(kernel_text_checksum() == text);
}
