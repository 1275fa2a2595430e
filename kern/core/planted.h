// Planted bugs, for tests of the tools that find bugs.
//
// Only the kernel `debug` (configs/debug.config) contains these bugs. A bug is inactive unless
// `break=NAME,…` on the kernel command line activates it. In every other kernel planted() is false
// at compile time. Where the list says that X keeps Y, X does not release Y: a leak.
#pragma once

#include <cstdint>

// X(enumerator, name)
#define PLANTED_BUGS(X)                                                                            \
  X(kPipeClose, "pipe_close") /* closing a pipe leaves its buffer behind */                        \
  X(kWalkError, "walk_error") /* a walk that fails keeps the last directory that it reached */     \
  X(kExitFiles, "exit_files") /* a process that ends keeps its descriptor table */                 \
  /* Leaks that the leak test misses if it compares only the stacks of five traced runs.           \
     pipe_planted.h describes the first six. */                                                    \
  X(kFiveStacks, "five_stacks")                                                                    \
  X(kOneInTwo, "one_in_two")                                                                       \
  X(kOneInFour, "one_in_four")                                                                     \
  X(kOneInTen, "one_in_ten")                                                                       \
  X(kReallocation, "reallocation")                                                                 \
  X(kBatch, "batch")                                                                               \
  X(kByTime, "by_time")             /* the task `memory` loses an object in each of its rounds */  \
  X(kKeptStack, "kept_stack")       /* freed kernel stacks leak if arena `page` has no trace */    \
  X(kTraceTable, "trace_table")     /* a trace that is reset keeps its table */                    \
  X(kDumpCopy, "dump_copy")         /* closing a tracedump keeps its work memory */                \
  X(kProbeSession, "probe_session") /* closing a session of probes keeps its memory */             \
  X(kHostFile, "host_file")         /* closing a file of the host keeps its fid */                 \
  /* Leaks after a failed allocation. */                                                           \
  X(kForkError, "fork_error")     /* a fork keeps the child's descriptor table */                  \
  X(kLoadError, "load_error")     /* an exec keeps the new address space */                        \
  X(kCreateError, "create_error") /* a new file in #tmp stays without a name */                    \
  X(kBindError, "bind_error")     /* a bind as union keeps the target's channel */                 \
  X(kFaultError, "fault_error")   /* a page that could not be mapped is not freed */               \
  /* For leakfuzz: five leaks, two panics, a hang, a wrong count, a wrong lock order. */           \
  X(kRenameName, "rename_name")       /* a rename over a file keeps the old name */                \
  X(kExecFormat, "exec_format")       /* execve of a file that is no program keeps the file */     \
  X(kGetdentsFault, "getdents_fault") /* getdents to a bad address keeps the directory */          \
  X(kDupRange, "dup_range")           /* F_DUPFD out of range keeps the file */                    \
  X(kBindSpare, "bind_spare")         /* a second bind into a union keeps the spare structure */   \
  X(kTmpHole, "tmp_hole")       /* reading after the last page indexes past the array of pages */  \
  X(kPipeReader, "pipe_reader") /* a write without readers uses a null pointer as the ring */      \
  X(kPipeKill, "pipe_kill")     /* a task that waits for room in a pipe cannot be killed */        \
  X(kTraceFreed, "trace_freed") /* a free on the tracer's slow path is not counted */              \
  X(kPipeStat, "pipe_stat")     /* fstat of a pipe takes the process lock under the pipe's lock */ \
  /* For leakfuzz and stress: a stack overflow, a hang, two leaks by races, lost records. */       \
  X(kStaleWalk, "stale_walk")   /* the search for a present name follows links and takes `..` */   \
  X(kTimerStorm, "timer_storm") /* a tick runs each expiration of timers, also without a signal */ \
  X(kDeadLock, "dead_lock")     /* a waiter whose descriptor is closed gets its record lock */     \
  X(kDevfdRace, "devfd_race")   /* open of /dev/fd/N takes a file that nobody else holds as new */ \
  X(kLateFlags, "late_flags")   /* CPUs that start later do not trace references from boot on */   \
  X(kSignalUsers, "signal_users") /* a user may signal processes of all users but root */          \
  X(kFreeTime, "free_time")       /* a task that sleeps or ends before a tick is not charged */    \
  /* References that are never put; the leak test must name the holder of each. */                 \
  X(kRefList, "ref_list")         /* reference in a list that nobody empties */                    \
  X(kRefTimer, "ref_timer")       /* reference held by a timer that expires in a day */            \
  X(kRefImmortal, "ref_immortal") /* reference to an object that is never freed */                 \
  X(kRefTask, "ref_task")         /* reference on the stack of a task that waits for ever */       \
  X(kRefStatic, "ref_static")     /* reference in a table in static memory */                      \
  /* Memory that is never freed, but still reachable; the leak test must name what keeps it.       \
     proc/kept_planted_impl.h describes these bugs. */                                             \
  X(kKeptList, "kept_list")                                                                        \
  X(kKeptHash, "kept_hash")                                                                        \
  X(kKeptSlots, "kept_slots")                                                                      \
  X(kKeptTree, "kept_tree")                                                                        \
  X(kKeptChain, "kept_chain")                                                                      \
  X(kKeptField, "kept_field")                                                                      \
  X(kKeptWords, "kept_words")                                                                      \
  X(kKeptRing, "kept_ring")                                                                        \
  X(kKeptVector, "kept_vector")                                                                    \
  /* References that an error path loses. */                                                       \
  X(kBindKind, "bind_kind")           /* a bind of a file to a directory keeps the file */         \
  X(kForkSpace, "fork_space")         /* a fork that fails keeps the child's address space */      \
  X(kMapRoom, "map_room")             /* an mmap that fails keeps the process's address space */   \
  X(kCreateGone, "create_gone")       /* a new file in a removed directory is not freed */         \
  X(kCoverageAgain, "coverage_again") /* a second `start` of #coverage keeps the first map */      \
  /* Stacks and contexts that are swept too soon; the kernel test `proof` must find these bugs. */ \
  X(kSweepForgetsRoot, "sweep_forgets_root") /* ids cached in tasks are not marked */              \
  X(kSweepNoSecondLook,                                                                            \
    "sweep_no_second_look")                /* entries used after the first check are freed too */  \
  X(kSweepEarlyReuse, "sweep_early_reuse") /* entries are reused while look-ups still read them */ \
  X(kResetDropsFirst, "reset_drops_first") /* a reset gives up its numbers before its records */   \
  /* Translations that are not invalidated; arch/x86_64/tlb_check.h must find each. */             \
  X(kTlbMap, "tlb_map")                    /* on this CPU: a page in place of another */           \
  X(kTlbUnmap, "tlb_unmap")                /* on this CPU: a page that is removed */               \
  X(kTlbWriteProtect, "tlb_write_protect") /* on this CPU: a page that fork makes read-only */     \
  X(kTlbProtect, "tlb_protect")            /* on this CPU: a page with other rights */             \
  X(kTlbClean, "tlb_clean")                /* on this CPU: a page that is not dirty any more */    \
  X(kTlbTable, "tlb_table")                /* on this CPU: a table that is removed */              \
  X(kTlbTableRange, "tlb_table_range")     /* on other CPUs: a table that is removed */            \
  X(kTlbFlush, "tlb_flush")                /* on other CPUs: anything */                           \
  X(kTlbForgetPages, "tlb_forget_pages")   /* on other CPUs: a few pages */                        \
  X(kTlbForgetAll, "tlb_forget_all")       /* on other CPUs: many pages */                         \
  X(kTlbSwitch, "tlb_switch")              /* a task of the same process that comes to a CPU */    \
  X(kTlbSleep, "tlb_sleep")                /* no bug: sleeps between a change and its flush */     \
  X(kTlbKernel, "tlb_kernel")              /* on all CPUs: a mapping of the kernel */              \
  X(kTlbText, "tlb_text")                  /* on this CPU: the code that text_write() maps */

#define PLANTED_ENUMERATOR(enumerator, name) enumerator,
enum class Planted : uint32_t { PLANTED_BUGS(PLANTED_ENUMERATOR) };
#undef PLANTED_ENUMERATOR

#ifdef CONFIG_PLANTED_BUGS
// Activates the bugs that `break=` on the kernel command line names. Panics on an unknown name.
// Called once.
void planted_init();
// True if the bug is active. Any context.
bool planted(Planted bug);
#else
inline void planted_init() {}
constexpr bool planted(Planted) {
  return false;
}
#endif
