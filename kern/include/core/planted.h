// Bugs planted on purpose, for the tests that see whether they are found.
//
// They are only in the kernel `break` (configs/break.config), asleep until `break=NAME,…` on the
// kernel command line wakes them. In every other kernel planted() is false at compile time.
#pragma once

#include <cstdint>

// X(enumerator, name)
#define PLANTED_BUGS(X)                                                                            \
  X(kPipeClose, "pipe_close") /* closing a pipe leaves its buffer behind */                        \
  X(kWalkError, "walk_error") /* a walk that fails keeps the directory reached */                  \
  X(kExitFiles, "exit_files") /* a process that ends keeps its descriptor table */                 \
  /* What the stacks of some five runs do not show; pipe_planted.h has the first six. */           \
  X(kFiveStacks, "five_stacks")                                                                    \
  X(kOneInTwo, "one_in_two")                                                                       \
  X(kOneInFour, "one_in_four")                                                                     \
  X(kOneInTen, "one_in_ten")                                                                       \
  X(kReallocation, "reallocation")                                                                 \
  X(kBatch, "batch")                                                                               \
  X(kByTime, "by_time")         /* the task `memory` loses something at each look */               \
  X(kKeptStack, "kept_stack")   /* kernel stacks that are kept back are lost; none is if traced */ \
  X(kTraceTable, "trace_table") /* a trace that is reset keeps a page */                           \
  X(kDumpCopy, "dump_copy")     /* closing a tracedump keeps the memory that it works in */        \
  X(kProbeSession, "probe_session") /* closing a session of probes keeps its memory */             \
  X(kHostFile, "host_file")         /* closing a file of the host keeps its fid */                 \
  /* only where an allocation has failed */                                                        \
  X(kForkError, "fork_error")     /* a fork keeps the child's descriptor table */                  \
  X(kLoadError, "load_error")     /* an exec keeps the new address space */                        \
  X(kCreateError, "create_error") /* a new file in #tmp stays without a name */                    \
  X(kBindError, "bind_error")     /* a bind as union keeps the target's channel */                 \
  X(kFaultError, "fault_error")   /* a page stays that could not be mapped */                      \
  /* What leakfuzz must find: five leaks, two panics, a hang, a lost count, a lock order. */       \
  X(kRenameName, "rename_name")       /* a rename over a file keeps the name that was left */      \
  X(kExecFormat, "exec_format")       /* execve of what is no program keeps the file */            \
  X(kGetdentsFault, "getdents_fault") /* getdents to a bad address keeps the directory */          \
  X(kDupRange, "dup_range")           /* F_DUPFD out of range keeps the file */                    \
  X(kBindSpare, "bind_spare")         /* binding once more into a union keeps what was spare */    \
  X(kTmpHole, "tmp_hole")       /* reading a hole behind all pages of a file looks for a page */   \
  X(kPipeReader, "pipe_reader") /* a pipe that nobody reads is written all the same */             \
  X(kPipeKill, "pipe_kill")     /* who waits for room in a pipe cannot be killed */                \
  X(kTraceFreed, "trace_freed") /* a free that is not of the last object is not counted */         \
  X(kPipeStat, "pipe_stat")     /* fstat of a pipe takes the lock of processes under the pipe's */ \
  /* References that stay: what the leak test names. */                                            \
  X(kRefList, "ref_list")         /* in a list that nobody empties */                              \
  X(kRefTimer, "ref_timer")       /* with a timer that is a day away */                            \
  X(kRefImmortal, "ref_immortal") /* to an object that stays anyway */                             \
  X(kRefTask, "ref_task")         /* on the stack of a task that waits for good */                 \
  X(kRefStatic, "ref_static")     /* in a table in static memory */                                \
  /* References that an error path loses. */                                                       \
  X(kBindKind, "bind_kind")           /* a bind of a file to a directory keeps the file */         \
  X(kForkSpace, "fork_space")         /* a fork that fails keeps the child's address space */      \
  X(kMapRoom, "map_room")             /* an mmap that fails keeps its own address space */         \
  X(kCreateGone, "create_gone")       /* a new file of a removed directory stays */                \
  X(kCoverageAgain, "coverage_again") /* `start` for a second time keeps the map before */         \
  /* What the proof must find: stacks and contexts that are swept too soon. */                     \
  X(kSweepForgetsRoot, "sweep_forgets_root") /* tasks are not asked what they remember */          \
  X(kSweepNoSecondLook,                                                                            \
    "sweep_no_second_look")                /* what was looked up since it was seen old dies */     \
  X(kSweepEarlyReuse, "sweep_early_reuse") /* places are reused while look-ups stand on them */

#define PLANTED_ENUMERATOR(enumerator, name) enumerator,
enum class Planted : uint32_t { PLANTED_BUGS(PLANTED_ENUMERATOR) };
#undef PLANTED_ENUMERATOR

#ifdef CONFIG_PLANTED_BUGS
// Reads the command line. Once; panics at a name that there is not.
void planted_init();
// Whether the bug is awake. Any context.
bool planted(Planted bug);
#else
inline void planted_init() {}
constexpr bool planted(Planted) {
  return false;
}
#endif
