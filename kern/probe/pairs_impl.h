// Keeps running calls of allocation functions until they return, to match returns with calls.
//
// For each runner (a thread of a process; a kernel task; a CPU's interrupts) the outermost call is
// kept. Nested calls of functions that allocate or free lie lower on the stack, and are part of the
// outermost call. When the same function returns at the stack position of the kept call, the call
// ends.
//
// A kept call may also end without a return (an exception, longjmp). Three events show this. First,
// a function is entered or returns at the position of the kept call or higher, and this is not the
// return of the kept call. Second, a function is entered at a lower position, and the kept call is
// not among the function's callers: a thread that has caught an exception may continue with calls
// at lower positions only. Third, the thread ends (forget()): the next thread with the same stack
// is another runner. The kept call is then forgotten, and counted as abandoned, since it may have
// allocated or not. Before a call is forgotten, the parameter `gone` is called with the call as its
// argument.
//
// The kept calls are in a table of buckets, which needs no lock: a runner takes a slot by
// compare-and-swap, and until the slot is released, only this runner uses the slot. If a bucket is
// full, the call cannot be followed, and enter() returns false.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trace/record/record.h"

struct ProbeCall {
  uint64_t stack_pointer;
  uint64_t return_address;  // in a program: the word at stack_pointer; 0 in the kernel
  uint64_t size;            // bytes
  uint64_t old;             // object that is freed if the call succeeds; 0: none
  TraceOwner owner;         // owner of `old` and of the new object
  bool has_old;             // `old` has a record, whose owner is changed until the call ends
  uint64_t where;           // user address that gets the object; 0: the call returns the object
  uint32_t tag;
  StackId stack;
  bool wanted;  // the object must be recorded
  bool truncated;
};

// The execution context that makes calls.
struct ProbeRunner {
  uint64_t word;  // never 0
  static ProbeRunner thread(uint32_t id) { return {uint64_t{1} << 32 | id}; }
  static ProbeRunner task(uint32_t id) { return {uint64_t{2} << 32 | id}; }
  static ProbeRunner interrupts(CpuId cpu) { return {uint64_t{3} << 32 | number_of(cpu)}; }
};

class ProbePairs {
 public:
  // All functions are lock-free. Unless a comment says otherwise, the runner itself calls them with
  // interrupts off, in any context but NMI. forget_all() and visit_stacks() visit all buckets; the
  // other functions visit one bucket.

  // Called when a function is entered. True if the function's call is part of the kept call.
  // `stands(call)` is called for a kept call at a higher stack position. It returns true if the
  // kept call may be one of the function's callers.
  template <typename Stands, typename Gone>
  bool within(ProbeRunner runner, uint64_t stack_pointer, Stands stands, Gone gone) {
    Slot* const slot = find(runner);
    if (!slot) return false;
    if (stack_pointer < slot->call.stack_pointer && stands(slot->call)) return true;
    abandon(*slot, gone);
    return false;
  }
  // Keeps a call that is not part of another call; false if the bucket is full.
  bool enter(ProbeRunner runner, const ProbeCall& call);
  // Called when a function returns. True if this return ends the kept call: the call is copied to
  // `*call`, and its slot is released.
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
  // Abandons the runner's kept call, which will not return.
  template <typename Gone>
  void forget(ProbeRunner runner, Gone gone) {
    if (Slot* const slot = find(runner)) abandon(*slot, gone);
  }
  // Abandons all running calls, whose returns will not be reported. Called while no hits come.
  template <typename Gone>
  void forget_all(Gone gone) {
    for (Bucket& bucket : buckets_) {
      for (Slot& slot : bucket) {
        if (slot.runner.load(std::memory_order_acquire) != 0) abandon(slot, gone);
      }
    }
  }

  // Calls visit(stack) for the stack of each kept call, and perhaps for stacks of calls that have
  // ended. Calls may begin and end meanwhile. The caller may be preempted.
  template <typename Visit>
  void visit_stacks(Visit visit) const {
    for (const Bucket& bucket : buckets_) {
      for (const Slot& slot : bucket) {
        if (slot.runner.load(std::memory_order_acquire) != 0)
          visit(std::atomic_ref(slot.call.stack).load(std::memory_order_relaxed));
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
    std::atomic<uint64_t> runner{0};  // 0: the slot is free
    ProbeCall call = {};
  };
  using Bucket = std::array<Slot, kWays>;

  Bucket& bucket_of(ProbeRunner runner) {
    return buckets_[(runner.word * 0x9e3779b97f4a7c15) >> (64 - kBucketBits)];
  }
  Slot* find(ProbeRunner runner);
  // Clears the slot's stack, so that visit_stacks() does not take it for the stack of the next
  // runner.
  static void release(Slot& slot) {
    std::atomic_ref(slot.call.stack).store(StackId::kNone, std::memory_order_relaxed);
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
