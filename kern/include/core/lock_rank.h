// The order in which locks are taken.
//
// The rule: while a CPU holds a spinlock of rank r it may take only spinlocks of a rank lower than
// r. So the table below, read from top to bottom, is the order in which locks nest. Two locks of
// one rank are never held together, except where the rank says how. A sleeping lock (Mutex) may be
// taken only with no spinlock held, and follows the same rule among sleeping locks. With
// CONFIG_LOCK_RANK_CHECK every acquisition is checked.
#pragma once

#include <cstdint>

enum class LockRank : uint8_t {
  // Innermost: may be taken with anything held.
  kLog = 1,        // console port, log
  kInternTable,    // a chain of stacks or contexts
  kTraceShard,     // one shard of a trace table
  kArenaTags,      // pool of boundary tags
  kArena,          // an arena; importing takes the source arena's lock after dropping its own
  kSlabCacheList,  // list of all caches
  kSlabDepot,      // depot of a cache
  kSlabCache,      // slab lists of a cache
  kTaskList,       // list of all tasks; free kernel stacks
  kTimer,          // per-CPU timer queue
  kRunQueue,       // per-CPU run queue; two only in order of CPU number
  kWaitQueue,      // wait queue
  kReaper,         // tasks that have ended
  kPageTable,      // an address space's page tables
  kInterrupts,     // interrupt routing, cross-CPU calls
  kAddressSpaces,  // list of all address spaces
  kConsumers,      // of probes on programs
  kConsole,        // line discipline
  kPipe,           // one pipe
  kDevice,         // state of any other device
  kFdTable,        // descriptor table
  kNamespace,      // mount table
  kProcessTable,   // process table, parent and child links
  // Sleeping locks.
  kAddressSpace,  // regions of an address space
  kUserProbes,    // probes on programs
  kDeviceMutex,   // a device that sleeps while it works
  kKernelProbes,  // which functions have probes
  kTraceStore,    // users of the tables of stacks and contexts
  kTraceSweep,    // a sweep of these tables
  kTraceControl,  // start, stop, reset, mark
  kReach,         // a look at what can be reached, one at a time
  kTraceReader,   // a dump, or the events of a session, that one reads at a time
  kProbeSession,  // commands of a session of #probe: around arming, and around kTraceStore
  kFailNext,      // #debug: whose allocations are to fail
  kDebugDevice,   // #debug: held around what it makes the kernel do
};
