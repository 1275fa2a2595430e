// The environment of the allocator (slabs, arenas, pages) on the host. CPUs are threads,
// interrupts are signals, and tests can make allocations fail.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace host {

// Maps `bytes` of memory in two ranges and initializes the allocator with them. A program calls
// this function once.
void memory_start(uint64_t bytes);

// Runs body(cpu) on CPUs 0 to count-1 at the same time, in a thread for each CPU, and waits until
// all these calls have returned. If `interrupt` is given, each CPU calls interrupt() at random
// moments when its interrupts are on; interrupts are off during the call. The calling thread is not
// a CPU while it waits. Under ThreadSanitizer `interrupt` must be null, and each thread sometimes
// moves to another CPU, as a preemptible task does (sections.cc).
void run_cpus(unsigned count, const std::function<void(unsigned)>& body,
              void (*interrupt)() = nullptr);
// Returns the number of interrupts that the CPUs have taken.
uint64_t interrupts_taken();

// Makes `percent` percent of all further requests for slab memory fail, at random.
void fail_pages(unsigned percent);
// Makes `percent` percent of all further calls of slab_os_lock_try() fail, at random and in
// addition to real contention. Only depots call slab_os_lock_try().
void contend(unsigned percent);
// If `check` is true, caches that are created later are checked from their creation on.
void check_new_caches(bool check);
// Returns what was logged since the last call of take_log().
std::string take_log();

// Makes the calling thread CPU 0. memory_start() calls this function.
void cpus_start();

}  // namespace host
