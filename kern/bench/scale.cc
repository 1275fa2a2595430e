// Benches: the cost of a traced pair (an allocation and the free of that object) with very many
// contexts and stacks, and with objects of many CPUs. Also bench_many(), which gives the number of
// objects for #bench/contexts and for #bench/scale (outstanding.cc).
#include <algorithm>
#include <string_view>

#include "bench/bench.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "core/probe_guard.h"
#include "intern/context.h"
#include "intern/current_context.h"
#include "intern/shared_tables.h"
#include "intern/sweeper.h"
#include "intern/trace_memory.h"
#include "lib/format.h"
#include "lib/words.h"
#include "trace/control/control.h"

namespace {

// Estimates in bytes, for bench_many(). kTinyBytes is the memory for one tiny object: the object,
// the bench's pointer to it, and a part of the unused memory in slabs. kTraceBytes is the largest
// trace memory for one object. kTraceItself is the trace memory that does not depend on the number
// of objects.
constexpr size_t kTinyBytes = 28, kTraceBytes = 50, kTraceItself = 1 << 20;
// Bytes of trace memory for an object whose context, user stack and stack pair (its kernel stack
// and user stack) belong to no other object. In addition to kTraceBytes, the context takes an entry
// of 40 bytes, the user stack one of 72 and the stack pair one of 32. The rest is for heads of hash
// chains.
constexpr size_t kContextBytes = kTraceBytes + 200;

BENCH_INLINE inline Cost pair_cost(kmem_cache* cache) {
  const Objects objects(cache);
  Cost cost;
  at_depth(kDepth, [&]() BENCH_INLINE {
    cost = least_of_each(cache, objects, [cache](unsigned) BENCH_INLINE { pair(cache); });
  });
  return cost;
}

// Objects that all seem to be allocated by different processes, in system calls from different user
// stacks. In fact the current kernel task allocates them and poses as each process in turn. The
// destructor restores the task's PID and name, and frees the objects.
class Strangers {
 public:
  Strangers(kmem_cache* cache, unsigned count) : cache_(cache), count_(count), objects_(count) {
    std::fill_n(objects_.data(), count, nullptr);
  }
  ~Strangers() {
    for (unsigned i = 0; i < count_; i++) kmem_cache_free(cache_, objects_[i]);
    Task& task = *current_task();
    task.pid = 0;
    format(task.name, sizeof(task.name), "bench");
    trace_program_changed(task);
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  enum class Order : uint8_t { kAsNumbered, kRandom };
  // Repeats one operation `operations` times: chooses an object by `order`, frees it, poses as the
  // object's process, and allocates the object again. Returns the mean cost of an operation. In the
  // first call of renew() there is nothing to free.
  [[gnu::noinline]] Cost renew(unsigned operations, Order order) {
    uint32_t seed = 1;
    return mean(operations, [&](unsigned i) BENCH_INLINE {
      seed = seed * 1664525 + 1013904223;
      const auto random = static_cast<unsigned>(uint64_t{seed} * count_ >> 32);
      const unsigned number = order == Order::kAsNumbered ? i : random;
      kmem_cache_free(cache_, objects_[number]);
      become(number);
      objects_[number] = take(cache_);
    });
  }

 private:
  // Poses as the process of object number `number`: the number determines the PID, the program name
  // and the frames of the user stack.
  static void become(unsigned number) {
    constexpr size_t kFrames = 6;
    Task& task = *current_task();
    task.pid = 1 + number % kMaxPid;
    format(task.name, sizeof(task.name), "bench%03u", number / kMaxPid);
    trace_program_changed(task);
    uint64_t frames[kFrames];
    for (unsigned i = 0; i < kFrames; i++) frames[i] = 0x400000 + uint64_t{number} * 16 + i;
    const ProbesOff off;
    trace_memory_prepare();
    const bool known = trace_find_base() != ContextId::kNone;
    const StackId stack = trace_stacks.intern(StackKind::kUser, frames, kFrames);
    ASSERT(known && stack != StackId::kNone);
    task.trace_call = caller_with(stack);
  }

  kmem_cache* const cache_;
  const unsigned count_;
  const Block<void*> objects_;
};

// The objects of one CPU, and the cost that was measured with them.
struct OnCpu {
  kmem_cache* cache;
  void** objects;
  Cost pair;
  static constexpr unsigned kEach = 1000;
};

void take_on_cpu(void* argument) {
  const auto& self = *static_cast<OnCpu*>(argument);
  at_depth(kDepth, [&]() BENCH_INLINE {
    for (unsigned i = 0; i < OnCpu::kEach; i++) self.objects[i] = take(self.cache);
  });
}
void count_on_cpu(void* argument) {
  auto& self = *static_cast<OnCpu*>(argument);
  self.pair = pair_cost(self.cache);
}
void free_on_cpu(void* argument) {
  const auto& self = *static_cast<OnCpu*>(argument);
  for (unsigned i = 0; i < OnCpu::kEach; i++) kmem_cache_free(self.cache, self.objects[i]);
}

// Counts the records of a cache's trace, and the strays among these records. A stray is a record
// that is not in the shard of the CPU that made it.
struct Shards {
  explicit Shards(kmem_cache* cache) {
    const MutexGuard guard(trace_control);
    TraceTable* const table = trace_table_of(TraceSource(cache));
    ASSERT(table && table->shards() == cpu_count());
    for (unsigned shard = 0; shard < table->shards(); shard++) {
      const bool free = table->try_visit(shard, [&](const TraceRecord& record) {
        records++;
        strays += number_of(record.cpu()) != shard;
      });
      ASSERT(free);
    }
  }
  uint64_t records = 0, strays = 0;
};

}  // namespace

Result<unsigned> bench_many(const char* name) {
  constexpr uint64_t kUsual = 1'000'000, kLeast = 1000, kMost = 100'000'000;
  uint64_t count = kUsual;
  size_t length;
  const char* const digits = boot_option(name, &length);
  if (digits && !parse_number(std::string_view(digits, length), kLeast, kMost, &count)) {
    return fail(Errno::EINVAL, "%s= on the kernel command line takes a number from %lu to %lu",
                name, kLeast, kMost);
  }
  const size_t each = std::string_view(name) == "contexts" ? kContextBytes : kTraceBytes;
  const uint64_t trace_bytes = count * each + kTraceItself;
  const uint64_t limit = trace_memory_used() + trace_bytes;
  if (trace_memory_limit() < limit) {
    return fail(Errno::ENOMEM, "%lu %s need `limit %lu` in #mem/kmemtrace/ctl", count, name, limit);
  }
  struct arena_stats base;
  arena_stats(base_arena, &base);
  const uint64_t needed = count * kTinyBytes + trace_bytes;
  if (base.total_bytes - base.allocated_bytes < needed)
    return fail(Errno::ENOMEM, "%lu %s need %lu bytes of free memory", count, name, needed);
  return static_cast<unsigned>(count);
}

// The rows contexts_*_looked_up give the cost of one operation of renew(). Each operation looks up
// a context, a user stack and a stack pair among `count` others. The rows contexts_*_pair give the
// cost of an allocation and its free in one context, while `count` other contexts exist. With
// `depth=1` the trace records one kernel frame, so that both calls of renew() have the same kernel
// stack.
KBENCH(contexts, kTaskOfContexts) {
  constexpr unsigned kOperations = 16'000;
  Result<unsigned> many = bench_many("contexts");
  if (!many) return;
  const auto entries = [] { return trace_contexts.fill().entries + trace_stacks.fill().entries; };
  for (const unsigned count : {kBenchFew, *many}) {
    const BenchCache cache(kBenchTiny);
    const uint64_t before = trace_memory_used();
    const Traced traced(cache, "depth=1");
    Strangers strangers(cache, count);
    strangers.renew(count, Strangers::Order::kAsNumbered);
    trace_sweep();  // a sweep is due, and would otherwise run during the measurement
    const uint32_t filled = entries();
    ASSERT(trace_contexts.size() >= count && trace_stacks.size() >= count);
    const Cost looked_up = strangers.renew(kOperations, Strangers::Order::kRandom);
    ASSERT(entries() == filled);  // each look-up has found its entry
    const char* const name = count == kBenchFew ? "few" : "many";
    bench_row(looked_up, "contexts_%s_looked_up", name);
    bench_row(pair_cost(cache), "contexts_%s_pair", name);
    bench_row(cost_of(trace_memory_used() - before, count), "contexts_%s_bytes", name);
  }
}

// The cost of a traced allocation and its free on the slowest CPU, while each CPU has OnCpu::kEach
// outstanding objects.
KBENCH(cpus, kTaskOnCpus) {
  const BenchCache cache(kBenchTiny);
  const Traced traced(cache);
  const unsigned cpus = cpu_count();
  const Block<void*> objects(size_t{cpus} * OnCpu::kEach);
  Cost dearest = {};
  const auto on_each = [&](void (*run)(void*)) {
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
      OnCpu on = {.cache = cache, .objects = &objects[size_t{cpu} * OnCpu::kEach], .pair = {}};
      ASSERT(bench_in_task(run, &on, CpuId{cpu}).ok());
      dearest.hundredths = std::max(dearest.hundredths, on.pair.hundredths);
    }
  };
  bench_row(pair_cost(cache), "cpus_empty");
  on_each(take_on_cpu);
  on_each(count_on_cpu);
  const Shards shards(cache);
  bench_row(dearest, "cpus_dearest");
  bench_row({cpus * uint64_t{100}}, "cpus_shards");
  bench_row({shards.records * 100}, "cpus_records");
  bench_row({shards.strays * 100}, "cpus_strays");
  on_each(free_on_cpu);
}
