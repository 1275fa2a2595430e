// The environment of the allocator (slabs, arenas, pages) and the tracer's hooks in benchmarks on
// the host. Its functions check and count nothing, so they are as cheap as the kernel's. Each
// thread acts as a CPU. There are no interrupts.
#pragma once

#include <cstdint>

struct kmem_cache;

// Sets up the allocator with `bytes` of memory, and the tracer. Call once.
void world_start(uint64_t bytes);
// Makes the calling thread act as CPU `id`, and makes the thread's stack walkable.
void world_become_cpu(unsigned id);
// Starts the trace of `cache`, like `echo start > #mem/kmemtrace/CACHE`. No other thread may use
// the cache during the call.
void world_trace(kmem_cache* cache);

// While a StackBegin exists, stack walks end at the function that created it: the last address that
// they record is the function's return address. Further callers are in the host's libraries, whose
// addresses need more than 32 bits. `frame` is the function's __builtin_frame_address(0).
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
