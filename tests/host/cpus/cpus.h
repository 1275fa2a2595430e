// The world of the memory core on the host: CPUs that are threads, interrupts that are signals,
// memory that can run out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace host {

// `bytes` of memory in two ranges, and the memory core on it. Once in a program.
void memory_start(uint64_t bytes);

// Runs body(cpu) on CPUs 0..count-1 at the same time, each a thread, and returns when all have
// returned. `interrupt`, if given, is called on each CPU at random moments at which it has
// interrupts on, with interrupts off. The caller is no CPU meanwhile. Under ThreadSanitizer there
// are no interrupts, but threads move from CPU to CPU.
void run_cpus(unsigned count, const std::function<void(unsigned)>& body,
              void (*interrupt)() = nullptr);
// The number of interrupts that CPUs have taken.
uint64_t interrupts_taken();

// From now on `percent` of the requests for slabs' memory fail.
void fail_pages(unsigned percent);
// From now on a CPU finds a depot locked in `percent` of its tries, besides real cases.
void contend(unsigned percent);
// Caches that are made from now on are checked from the beginning, or not.
void check_new_caches(bool check);
// The log since the last call.
std::string take_log();

// Makes the caller CPU 0; memory_start() does it.
void cpus_start();

}  // namespace host
