// Benches of a pair (an allocation and the free of that object). Pairs are untraced or traced, in
// caches with or without bufctls, by kmalloc, at several depths, from many stacks, in a kernel task
// or in a process. Another bench measures references to a reference-counted object.
#include <atomic>
#include <optional>

#include "arch/x86_64/trap.h"
#include "bench/bench.h"
#include "bench/sizes.h"
#include "core/cpu.h"
#include "core/panic.h"
#include "core/ref.h"
#include "core/user_memory.h"
#include "kmalloc.h"
#include "lib/optimizer.h"
#include "sched/task.h"
#include "trace/trace.h"

namespace {

constexpr size_t kSmall = 64, kLarge = 1024;  // bytes; only objects of kLarge bytes have bufctls

// Measures body(), which allocates an object of `cache` and frees it, at a stack depth of `depth`.
// Frees `objects`, as least_of_each() does.
template <typename Body>
BENCH_INLINE inline Cost at(unsigned depth, kmem_cache* cache, const Objects& objects, Body body) {
  Cost cost;
  at_depth(depth, [&]() BENCH_INLINE { cost = least_of_each(cache, objects, body); });
  return cost;
}

Cost untraced_pairs(kmem_cache* cache) {
  const Objects objects(cache);
  return at(0, cache, objects, [cache](unsigned) BENCH_INLINE { pair(cache); });
}

// The objects are allocated before the trace begins, so they have no records. During a pair, the
// trace has only the record of the pair's object.
Cost traced_pairs(kmem_cache* cache, unsigned depth = kDepth, const char* options = nullptr) {
  const Objects objects(cache);
  const Traced traced(cache, options);
  return at(depth, cache, objects, [cache](unsigned) BENCH_INLINE { pair(cache); });
}

BENCH_INLINE inline void kmalloc_pair() {
  kfree(kmalloc(kSmall, KM_ATOMIC));
}

// Frees an object and allocates it again, from a different stack each time.
Cost on_stacks(kmem_cache* cache, Objects& objects) {
  return least(16, kStacks, [&](unsigned i) BENCH_INLINE {
    on_stack(i, kStackLevels, [&]() BENCH_INLINE {
      void*& object = objects.taken[i % kObjects];
      kmem_cache_free(cache, object);
      object = take(cache);
    });
  });
}

// Makes the current system call appear to come from a user stack of kFrames frames, for the life of
// a scope. The stack lies below the used part of the process's stack.
class UserStack {
 public:
  UserStack() : entry_(reinterpret_cast<TrapFrame*>(this_cpu().kernel_stack) - 1), saved_(*entry_) {
    constexpr uint64_t kFrameSize = 48, kBelow = 2048;
    struct Frame {
      uint64_t next, return_address;
    };
    entry_->rsp = align_down(saved_.rsp - kBelow, 16);
    entry_->rbp = entry_->rsp + 32;
    entry_->rip = kText;
    for (unsigned i = 1; i < kFrames; i++) {
      const uint64_t at = entry_->rbp + (i - 1) * kFrameSize;
      const Frame frame = {i + 1 < kFrames ? at + kFrameSize : 0, kText + i * 256};
      ASSERT(copy_to_user(at, &frame, sizeof(frame)).ok());
    }
  }
  ~UserStack() { *entry_ = saved_; }
  UserStack(const UserStack&) = delete;
  UserStack& operator=(const UserStack&) = delete;

  // Changes to a stack that the tracer has never seen.
  void become_another() const { entry_->rip++; }

 private:
  static constexpr unsigned kFrames = 6;
  static constexpr uint64_t kText = 0x400000;
  TrapFrame* const entry_;
  const TrapFrame saved_;
};

}  // namespace

KBENCH(sizes, kTask) {
  bench_row({bench_cache_bytes * 100}, "cache_bytes");
  bench_row({bench_cpu_bytes * 100}, "cache_cpu_bytes");
}

KBENCH(untraced, kTask) {
  const BenchCache small(kSmall), large(kLarge);
  bench_row(untraced_pairs(small), "untraced");
  bench_row(untraced_pairs(large), "untraced_bufctl");
}

KBENCH(traced, kTask) {
  const BenchCache small(kSmall), large(kLarge);
  bench_row(traced_pairs(small), "traced");
  bench_row(traced_pairs(large), "traced_bufctl");
  bench_row(traced_pairs(small, kDepth, "frees"), "traced_counting_frees");
}

KBENCH(kmalloc, kTask) {
  kmem_cache* const cache = kmem_cache_find("kmalloc_64");
  ASSERT(cache);
  for (const bool trace : {false, true}) {
    const Objects objects(cache);
    std::optional<Traced> traced;
    if (trace) traced.emplace(cache);
    const Cost cost = at(kDepth, cache, objects, [](unsigned) BENCH_INLINE { kmalloc_pair(); });
    bench_row(cost, trace ? "traced_kmalloc" : "untraced_kmalloc");
  }
  kmem_cache_release(cache);
}

// The bench itself may be up to kDepth frames deep. So for rows of fewer frames, the trace option
// `depth=` limits the number of frames in a record.
KBENCH(depths, kTask) {
  const BenchCache cache(kSmall);
  for (unsigned depth = 2; depth <= 30; depth += 2) {
    const char options[] = {'d', 'e', 'p', 't', 'h', '=', static_cast<char>('0' + depth), '\0'};
    bench_row(traced_pairs(cache, depth, depth < kDepth ? options : nullptr), "traced_depth_%u",
              depth);
  }
}

KBENCH(stacks, kTask) {
  const BenchCache cache(kSmall);
  Objects objects(cache);
  const Cost plain = on_stacks(cache, objects);
  {
    const Traced traced(cache);
    bench_row({on_stacks(cache, objects).hundredths - plain.hundredths}, "added_1000_stacks");
  }
  objects.give_back(cache);
}

// The first record of a system call walks the user stack; later records in the same call find the
// stack in the task's `trace_call`. The first record is cheaper if the walked stack is already in
// the stack table (`met`) than if the stack is new (`unmet`).
KBENCH(process, kProcess) {
  const Pinned pinned;
  const BenchCache cache(kSmall);
  bench_row(traced_pairs(cache), "traced_process");
  {
    const Objects objects(cache);
    const Traced traced(cache);
    const UserStack stack;
    const Cost met = at(kDepth, cache, objects, [&cache](unsigned) BENCH_INLINE {
      current_task()->trace_call = TraceCaller::kUnknown;
      pair(cache);
    });
    bench_row(met, "traced_process_first_of_call");
    Cost unmet;
    at_depth(kDepth, [&]() BENCH_INLINE {
      unmet = least(16, 20, [&](unsigned) BENCH_INLINE {
        stack.become_another();
        current_task()->trace_call = TraceCaller::kUnknown;
        pair(cache);
      });
    });
    bench_row(unmet, "traced_process_first_new");
  }
  current_task()->trace_call = TraceCaller::kNone;
  bench_row(traced_pairs(cache), "traced_process_no_user_stack");
}

namespace {

struct BenchCounted : RefCounted<BenchCounted> {
  static constexpr RefKind kRefKind = RefKind::kTest;
  static void destroy(BenchCounted*) {}
};

// A plain reference, without support for tracing.
class PlainRef {
 public:
  explicit PlainRef(std::atomic<uint32_t>* count) : count_(count) {
    if (count_) count_->fetch_add(1, std::memory_order_relaxed);
  }
  ~PlainRef() {
    if (count_ && count_->fetch_sub(1, std::memory_order_acq_rel) == 1)
      panic("bench: no reference");
  }
  PlainRef(const PlainRef& other) : PlainRef(other.count_) {}
  PlainRef& operator=(const PlainRef&) = delete;

 private:
  std::atomic<uint32_t>* count_;
};

// Copies a reference and drops the copy. escape() makes the compiler store the copy in memory.
template <typename Reference>
BENCH_INLINE inline void copy_and_drop(const Reference& from) {
  // The copy is what is measured.
  const Reference copy(from);  // NOLINT(performance-unnecessary-copy-initialization)
  escape(&copy);
}

template <typename Reference>
Cost copies_of(const Reference& from) {
  Cost cost;
  at_depth(kDepth, [&]() BENCH_INLINE {
    cost = least(16, 100, [&from](unsigned) BENCH_INLINE { copy_and_drop(from); });
  });
  return cost;
}

}  // namespace

KBENCH(references, kTask) {
  const Pinned pinned;
  BenchCounted counted;
  const Ref<BenchCounted> first = Ref<BenchCounted>::first(&counted);
  std::atomic<uint32_t> count{1};
  const Cost plain = copies_of(PlainRef(&count));
  bench_row({copies_of(first).hundredths - plain.hundredths}, "added_reference");
  const TraceSource kind(&ref_class(RefKind::kTest));
  ASSERT(trace_command(kind, "start").ok());
  bench_row(copies_of(first), "traced_reference");
  ASSERT(trace_command(kind, "stop\nreset").ok());
}
