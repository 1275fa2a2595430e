// The environment of the memory core and the tracer's hooks on the host, as cheap as in the kernel:
// without checks and counters. CPUs are threads; there are no interrupts.
#pragma once

#include <cstdint>

struct kmem_cache;

// Sets up the memory core with `bytes` of memory, and the tracer. Once.
void world_start(uint64_t bytes);
// Makes the calling thread CPU `id`, with a stack that can be walked.
void world_become_cpu(unsigned id);
// As `echo start > #mem/kmemtrace/CACHE`. While no other thread uses the cache.
void world_trace(kmem_cache* cache);

// Ends the walk of a stack at the caller of the function that has a StackBegin, as a task's stack
// ends at its entry: further callers are in the host's libraries, whose addresses need more than 32
// bits.
class StackBegin {
 public:
  explicit StackBegin(void* frame) : next_(static_cast<void**>(frame)), saved_(*next_) {
    *next_ = nullptr;
  }
  ~StackBegin() { *next_ = saved_; }
  StackBegin(const StackBegin&) = delete;
  StackBegin& operator=(const StackBegin&) = delete;

 private:
  void** const next_;
  void* const saved_;
};
