// The load of the tracer's proof (trace_proof_test.cc): workers that allocate and free objects,
// tasks that read dumps, a task that sweeps, and injected failures.
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
inline constexpr uint8_t kVector = 0xf1;  // vector of the interrupts that CPUs send to themselves
inline constexpr uint32_t kFirstPid = 30'000;  // first PID of the workers' simulated processes
inline constexpr uint32_t kPids = 200, kUsualPids = 2;
inline constexpr uint32_t kThreads = 4;  // per process
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
  std::atomic<Account*> chosen{nullptr};  // its trace has a snapshot that was not open yet
  std::atomic<uint64_t> dumps{0}, snapshots{0}, sweeps{0};
};
extern Workload workload;

// Tasks that run until workload.stop is set. They pause while workload.pause is set.
void worker(void*);
void reader(void*);
// A task that runs until workload.stop is set, without pauses.
void sweeper(void*);
// on_interrupt handles kVector, and on_timer is the callback of workload.timers. Both allocate and
// free objects while workload.interrupts is set.
void on_interrupt(TrapFrame&, void*);
void on_timer(void*);

struct Faults {
  Random random[kMaxCpus];
  // One in this many allocations from the accounts' sources fails.
  std::atomic<uint32_t> caches_one_in{0};
  // One in this many of the tracer's own allocations fails. The same rate applies to the structures
  // that the allocator allocates for slabs and magazines, but not to the pages of slabs.
  std::atomic<uint32_t> pages_one_in{0};
  std::atomic<bool> none{false};  // nothing fails; set during comparisons
  // The controller's task. Of its own allocations, only those of trace pages may fail. So a command
  // has the predicted effect or fails with ENOMEM.
  std::atomic<const Task*> controller{nullptr};
  std::atomic<void*> sources[kAccounts] = {};
  kmem_cache* own_caches[16] = {};
  bool on = false;  // only for the controller
};
extern Faults faults;
// Decides whether an allocation fails. The function is given to kmem_inject_begin().
int shall_fail(kmem_inject_site site, const void* source, size_t size, int flags);

}  // namespace proof
