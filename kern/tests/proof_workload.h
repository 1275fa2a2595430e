// Workers that allocate and free during the tracer's proof (trace_proof_test.cc), readers of dumps,
// and injected failures.
#pragma once

#include <atomic>
#include <cstdint>

#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "sched/task.h"
#include "sched/timer.h"
#include "slab.h"
#include "slab_trace.h"
#include "tests/proof_account.h"

namespace proof {

inline constexpr unsigned kWorkers = 8;
inline constexpr unsigned kReaders = 2;
inline constexpr unsigned kAccounts = 7;
inline constexpr unsigned kLastingAccounts = 3;  // further accounts are for temporary caches
inline constexpr uint8_t kVector = 0xf1;         // of interrupts that CPUs send themselves
inline constexpr uint32_t kFirstPid = 30'000;    // first PID of the workers' simulated processes
inline constexpr uint32_t kPids = 200, kUsualPids = 2;
inline constexpr uint32_t kThreads = 4;  // of a process
inline constexpr unsigned kSweepers = 1;

extern Account accounts[kAccounts];

struct Workload {
  std::atomic<bool> pause{false}, stop{false}, interrupts{false};
  std::atomic<unsigned> paused{0};
  std::atomic<unsigned> next_worker{0}, next_reader{0};
  Actor workers[kWorkers];
  Actor interrupt_actors[kMaxCpus];
  Timer timers[kMaxCpus] = {};
  std::atomic<unsigned> bad_dumps{0};
  std::atomic<uint64_t> dumps{0}, sweeps{0};
};
extern Workload workload;

// Tasks that run until workload.stop is set. They pause while workload.pause is set.
void worker(void*);
void reader(void*);
// A task that runs until workload.stop is set, without pauses.
void sweeper(void*);
// on_interrupt and on_timer act while workload.interrupts is set. on_timer is the callback of
// workload.timers.
void on_interrupt(TrapFrame&, void*);
void on_timer(void*);

struct Faults {
  Random random[kMaxCpus];
  std::atomic<uint32_t> caches_one_in{0};  // of the accounts' allocations, one in this many fails
  // One in this many fails: of the tracer's allocations of memory, and of the allocator's own
  // structures for slabs and magazines. Pages of slabs do not fail.
  std::atomic<uint32_t> pages_one_in{0};
  std::atomic<bool> none{false};  // nothing fails; set during comparisons
  // The controller's task. Its own allocations never fail, except the tracer's pages. So its
  // commands have the predicted effect, or fail with ENOMEM.
  std::atomic<const Task*> controller{nullptr};
  std::atomic<void*> sources[kAccounts] = {};
  kmem_cache* own_caches[16] = {};
  bool on = false;  // only for the controller
};
extern Faults faults;
// Decides whether an allocation fails: an argument of kmem_inject_begin().
int shall_fail(kmem_inject_site site, const void* source, size_t size, int flags);

}  // namespace proof
