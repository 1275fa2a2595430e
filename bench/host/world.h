// The functions that the memory core and the tracer's hooks need on the host. They are as cheap as
// in the kernel: they check and count nothing. Each thread is a CPU; there are no interrupts.
#pragma once

#include <cstdint>

struct kmem_cache;

// Sets up the memory core with `bytes` of memory, and the tracer. Call once.
void world_start(uint64_t bytes);
// Makes the calling thread CPU `id`, with a stack that can be walked.
void world_become_cpu(unsigned id);
// Starts the trace of `cache`, like `echo start > #mem/kmemtrace/CACHE`. No other thread may use
// the cache during the call.
void world_trace(kmem_cache* cache);

// Ends stack walks early, for the life of a scope. `frame` is __builtin_frame_address(0) of a
// function; the last recorded address is in the caller of this function. Further callers are in the
// host's libraries, whose addresses need more than 32 bits.
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
