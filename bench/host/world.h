// What the memory core and the hooks of the tracer want of the kernel, on the host and as cheap as in the kernel: nothing is
// checked or counted here. CPUs are threads; there are no interrupts.
#pragma once

#include <cstdint>

struct kmem_cache;

// The memory core on `bytes` of memory, and the tracer's own. Once.
void world_start(uint64_t bytes);
// The calling thread is CPU `id` from now on, and its stack can be walked.
void world_become_cpu(unsigned id);
// What `echo start > #mem/kmemtrace/CACHE` does. While no other thread uses the cache.
void world_trace(kmem_cache* cache);
