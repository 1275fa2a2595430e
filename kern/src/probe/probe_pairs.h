// Running calls of allocation functions, until they return: matches returns with calls.
//
// For each runner (a thread of a process; a kernel task; a CPU's interrupts) the outermost call is
// kept. Nested calls, allocating or freeing, are part of it; these lie lower on the stack. A return
// at the call's own position ends the call. If a function is entered or returns at the same or a
// higher position while a call is kept, the call has ended without a return (an exception,
// longjmp), and is forgotten. The same holds if a function is entered lower, and the call is no
// longer among its callers: after it has caught an exception, a thread may go on making calls at
// lower positions only. A thread that ends leaves its call behind, too; the next thread with the
// same stack is another runner. A forgotten call is counted as abandoned, since it may have
// allocated or not. `gone(call)` is called first.
//
// A table of buckets without a lock: a slot is taken and released by compare-and-swap, and in
// between only its runner uses it. When a bucket is full the call cannot be followed, which the
// caller counts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trace/trace_record.h"

struct ProbeCall {
  uint64_t stack_pointer;
  uint64_t return_address;  // the word at stack_pointer, in a program
  uint64_t size;            // bytes
  uint64_t old;             // object that is freed if the call succeeds; 0: none
  TraceOwner owner;         // owner of the objects
  bool has_old;             // `old` has a record, which waits for the call's end
  uint64_t where;           // address of the object's pointer, if the object is not the result
  uint32_t tag;
  uint32_t stack;
  bool wanted;  // must be recorded
  bool truncated;
};

// The execution context that makes calls.
struct ProbeRunner {
  uint64_t word;  // not 0
  static ProbeRunner thread(uint32_t id) { return {uint64_t{1} << 32 | id}; }
  static ProbeRunner task(uint32_t id) { return {uint64_t{2} << 32 | id}; }
  static ProbeRunner interrupts(uint32_t cpu) { return {uint64_t{3} << 32 | cpu}; }
};

class ProbePairs {
 public:
  // All are lock-free, for any context but NMI, called by the runner itself with interrupts off.
  // Bound: one bucket.

  // A function is entered. True if that is part of a kept call. stands(call) tells of a call at a
  // higher position whether it is still among the callers, as far as can be known.
  template <typename Stands, typename Gone>
  bool within(ProbeRunner runner, uint64_t stack_pointer, Stands stands, Gone gone) {
    Slot* const slot = find(runner);
    if (!slot) return false;
    if (stack_pointer < slot->call.stack_pointer && stands(slot->call)) return true;
    abandon(*slot, gone);
    return false;
  }
  // Keeps a call that is not part of another; false if there is no room.
  bool enter(ProbeRunner runner, const ProbeCall& call);
  // A function returns. True if that ends the kept call, which is then released.
  template <typename Gone>
  bool leave(ProbeRunner runner, uint64_t stack_pointer, uint32_t tag, ProbeCall* call, Gone gone) {
    Slot* const slot = find(runner);
    if (!slot || stack_pointer < slot->call.stack_pointer) return false;
    if (stack_pointer != slot->call.stack_pointer || tag != slot->call.tag) {
      abandon(*slot, gone);
      return false;
    }
    *call = slot->call;
    release(*slot);
    return true;
  }
  // The runner's kept call will not return.
  template <typename Gone>
  void forget(ProbeRunner runner, Gone gone) {
    if (Slot* const slot = find(runner)) abandon(*slot, gone);
  }
  // No return of a running call will be reported. Called while no hits come.
  template <typename Gone>
  void forget_all(Gone gone) {
    for (Bucket& bucket : buckets_) {
      for (Slot& slot : bucket) {
        if (slot.runner.load(std::memory_order_acquire) != 0) abandon(slot, gone);
      }
    }
  }

  // Calls visit(stack) for each stack of a kept call, and maybe of some earlier ones; calls may
  // come and go meanwhile. May be preempted.
  template <typename Visit>
  void visit_stacks(Visit visit) const {
    for (const Bucket& bucket : buckets_) {
      for (const Slot& slot : bucket) {
        if (slot.runner.load(std::memory_order_acquire) != 0)
          visit(__atomic_load_n(&slot.call.stack, __ATOMIC_RELAXED));
      }
    }
  }

  // Calls that have ended without a return, or whose return will never be reported.
  uint64_t abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  static constexpr unsigned kBucketBits = 7;
  static constexpr size_t kBuckets = size_t{1} << kBucketBits;
  static constexpr size_t kWays = 8;
  struct Slot {
    std::atomic<uint64_t> runner{0};  // 0: free
    ProbeCall call = {};
  };
  using Bucket = std::array<Slot, kWays>;

  Bucket& bucket_of(ProbeRunner runner) {
    return buckets_[(runner.word * 0x9e3779b97f4a7c15) >> (64 - kBucketBits)];
  }
  Slot* find(ProbeRunner runner);
  // Clears the stack, so that the slot's next runner does not inherit it.
  static void release(Slot& slot) {
    __atomic_store_n(&slot.call.stack, 0, __ATOMIC_RELAXED);
    slot.runner.store(0, std::memory_order_release);
  }
  template <typename Gone>
  void abandon(Slot& slot, Gone gone) {
    gone(slot.call);
    abandoned_.fetch_add(1, std::memory_order_relaxed);
    release(slot);
  }

  std::array<Bucket, kBuckets> buckets_;
  std::atomic<uint64_t> abandoned_{0};
};
