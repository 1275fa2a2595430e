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
inline constexpr unsigned kLastingAccounts = 3;  // the others are for temporary caches
inline constexpr uint8_t kVector = 0xf1;         // of the interrupt that CPUs send themselves
inline constexpr uint32_t kFirstPid = 30'000;    // of the workers' simulated processes
inline constexpr uint32_t kPids = 200, kUsualPids = 2;
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

// Tasks that run until workload.stop, and pause while workload.pause.
void worker(void*);
void reader(void*);
// The same, but does not pause.
void sweeper(void*);
// Act while workload.interrupts is set. The second is the callback of workload.timers.
void on_interrupt(TrapFrame&, void*);
void on_timer(void*);

struct Faults {
  Random random[kMaxCpus];
  std::atomic<uint32_t> caches_one_in{0};  // of the accounts' allocations
  // For the tracer's pages, and for the memory of all caches' slabs and magazines.
  std::atomic<uint32_t> pages_one_in{0};
  std::atomic<bool> none{false};  // set during comparisons
  // For the controller's commands only the tracer's allocations fail, so that their progress is
  // known.
  std::atomic<const Task*> controller{nullptr};
  std::atomic<void*> sources[kAccounts] = {};
  kmem_cache* own_caches[16] = {};
  bool on = false;  // the controller's own
};
extern Faults faults;
// For kmem_inject_begin().
int shall_fail(kmem_inject_site site, const void* source, size_t size, int flags);

}  // namespace proof
