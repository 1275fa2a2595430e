// The order in which locks are taken.
//
// The rule: while a CPU holds a spinlock of rank r it may take only spinlocks of a rank lower than
// r. The table below lists the ranks upwards, so the innermost locks come first. Two locks of one
// rank are never held together, unless the rank's comment allows it. A task that takes a sleeping
// lock (Mutex) may hold other sleeping locks of higher ranks, but no spinlock. With
// CONFIG_LOCK_RANK_CHECK every acquisition is checked.
#pragma once

#include <cstdint>

#define LOCK_RANKS(X)                                                                              \
  /* Spinlocks. */                                                                                 \
  X(kLog)           /* console port, log */                                                        \
  X(kInternTable)   /* hash chains of stacks or contexts */                                        \
  X(kTraceShard)    /* one shard of a trace table */                                               \
  X(kArenaTags)     /* pool of boundary tags */                                                    \
  X(kArena)         /* an arena; an import drops this lock, then takes the source arena's lock */  \
  X(kSlabCacheList) /* list of all caches */                                                       \
  X(kSlabDepot)     /* depot of a cache */                                                         \
  X(kSlabCache)     /* slab lists of a cache */                                                    \
  X(kTaskList)      /* list of all tasks; free kernel stacks */                                    \
  X(kTimer)         /* per-CPU timer queue */                                                      \
  X(kRunQueue)      /* per-CPU run queue; two may be held, taken in order of CPU number */         \
  X(kWaitQueue)     /* wait queue */                                                               \
  X(kReaper)        /* tasks that have ended */                                                    \
  X(kPageTable)     /* the kernel's page tables */                                                 \
  X(kPageCache)     /* the page cache */                                                           \
  X(kInterrupts)    /* interrupt routing, cross-CPU calls */                                       \
  X(kAddressSpaces) /* list of all address spaces */                                               \
  X(kConsumers)     /* consumers of probes on programs */                                          \
  X(kConsole)       /* line discipline */                                                          \
  X(kPipe)          /* one pipe */                                                                 \
  X(kDevice)        /* state of any other device */                                                \
  X(kFdTable)       /* descriptor table */                                                         \
  X(kNamespace)     /* mount table */                                                              \
  X(kFutex)         /* a hash bucket of tasks that wait on futexes */                              \
  X(kProcessPaths)  /* a process's current directory and credentials */                            \
  X(kProcessTable)  /* process table, parent and child links */                                    \
  /* Sleeping locks. */                                                                            \
  X(kAddressSpace)  /* regions and page tables of an address space */                              \
  X(kSpaceWalk)     /* a walk over all address spaces */                                           \
  X(kUserProbes)    /* probes on programs */                                                       \
  X(kDeviceMutex)   /* a device that sleeps while it works */                                      \
  X(kPageSync)      /* a file whose pages are written back */                                      \
  X(kKernelProbes)  /* the probes on kernel functions */                                           \
  X(kTraceUsers)    /* number of users of the tables of stacks and contexts */                     \
  X(kTraceSweep)    /* a sweep of the tables of stacks and contexts */                             \
  X(kTraceControl)  /* commands of traces: start, stop, reset, mark */                             \
  X(kReach)         /* a search for unreachable objects, one at a time */                          \
  X(kTraceReader)   /* an open file of #mem or #probe: one reader at a time */                     \
  X(kProbeSession)  /* a session of #probe: taken before the locks of probes and of kTraceUsers */ \
  X(kProcessTimers) /* POSIX timers of a process: held while user memory is copied */              \
  X(kProcessMemory) /* mmap and munmap of a process, while probes watch them */                    \
  X(kFailNext)      /* #debug: the tasks whose allocations shall fail */                           \
  X(kDebugDevice)   /* #debug: held during each of its commands */

#define LOCK_RANK_ENUMERATOR(name) name,
enum class LockRank : uint8_t { kNone, LOCK_RANKS(LOCK_RANK_ENUMERATOR) };
#undef LOCK_RANK_ENUMERATOR

// The rank's name, as in the table.
constexpr const char* lock_rank_name(LockRank rank) {
#define LOCK_RANK_NAME(name) #name,
  constexpr const char* kNames[] = {"kNone", LOCK_RANKS(LOCK_RANK_NAME)};
#undef LOCK_RANK_NAME
  return kNames[static_cast<unsigned>(rank)];
}
