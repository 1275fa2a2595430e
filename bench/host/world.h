// What the memory core and the hooks of the tracer want of the kernel, on the host and as cheap as
// in the kernel: nothing is checked or counted here. CPUs are threads; there are no interrupts.
#pragma once

#include <cstdint>

struct kmem_cache;

// The memory core on `bytes` of memory, and the tracer's own. Once.
void world_start(uint64_t bytes);
// The calling thread is CPU `id` from now on, and its stack can be walked.
void world_become_cpu(unsigned id);
// What `echo start > #mem/kmemtrace/CACHE` does. While no other thread uses the cache.
void world_trace(kmem_cache* cache);

// Ends the walk of a stack at the caller of the function that has it, as a task's stack ends at its
// entry: what called that lies in the host's libraries, too far away for return addresses of 32
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
