#include "store/shared_tables.h"

#include "core/log.h"
#include "core/sleep.h"
#include "slab_os.h"
#include "store/dump_reserve.h"
#include "store/recent_callers.h"
#include "store/recent_stacks.h"
#include "store/trace_memory.h"

constinit StackTable trace_stacks;
constinit ContextTable trace_contexts;

namespace {

constinit Mutex lock{LockRank::kTraceStore};
constinit uint32_t users GUARDED_BY(lock) = 0;

// For all CPUs there are: at boot they are started later.
Result<void> open_tables() {
  const unsigned cpus = slab_os_cpu_count();
  trace_memory_begin(cpus);
  Result<void> opened = trace_stacks.open();
  if (opened) {
    opened = trace_contexts.open();
    if (!opened) trace_stacks.clear();
  }
  if (opened) {
    recent_stacks_open(cpus);
    recent_callers_open(cpus);
  } else {
    trace_memory_end();
  }
  return opened;
}

}  // namespace

// Memory for the reserve may be had by a reap, in which a trace may end: before the lock.
Result<void> trace_users_add() {
  TRY(dump_reserve_hold());
  const MutexGuard guard(lock);
  const Result<void> opened = users == 0 ? open_tables() : Result<void>();
  if (opened) {
    users++;
  } else {
    dump_reserve_drop();
  }
  return opened;
}

void trace_users_drop() {
  dump_reserve_drop();
  const MutexGuard guard(lock);
  ASSERT(users > 0);
  if (--users > 0) return;
  recent_callers_close();
  recent_stacks_close();
  trace_contexts.clear();
  trace_stacks.clear();
  trace_memory_end();
}
