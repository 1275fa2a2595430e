// The tracer's interface for the rest of the kernel. The theory is in src/trace/trace.cc;
// docs/tracer.md explains it for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arena.h"
#include "core/ref.h"
#include "lib/result.h"
#include "slab.h"

// Once, after memory and CPUs are there: the trace arena with its limit.
void trace_init();

// --- What can have a trace: a cache, an arena or a kind of references. A word that is copied
// freely; it holds no reference by itself.
class TraceSource {
 public:
  constexpr TraceSource() = default;
  TraceSource(kmem_cache* cache) : word_(reinterpret_cast<uintptr_t>(cache)) {}
  TraceSource(struct arena* arena)
      : word_(reinterpret_cast<uintptr_t>(arena) | (arena ? kArena : 0)) {}
  TraceSource(RefClass* references)
      : word_(reinterpret_cast<uintptr_t>(references) | (references ? kReferences : 0)) {}

  explicit operator bool() const { return word_ != 0; }
  bool operator==(const TraceSource&) const = default;
  // nullptr if it is another, or nothing.
  kmem_cache* cache() const {
    return word_ & kKind ? nullptr : reinterpret_cast<kmem_cache*>(word_);
  }
  struct arena* arena() const {
    return word_ & kArena ? reinterpret_cast<struct arena*>(word_ & ~kKind) : nullptr;
  }
  RefClass* references() const {
    return word_ & kReferences ? reinterpret_cast<RefClass*>(word_ & ~kKind) : nullptr;
  }

  // All caches, then all arenas, in order of creation, then all kinds of references: as
  // kmem_cache_next, with a reference, in exchange for that of `source`. May sleep.
  static TraceSource next(TraceSource source);
  // By name, with a reference; none if there is none, or only a zombie.
  static TraceSource find(std::string_view name);
  // A reference keeps the structure and the trace. Releasing may sleep.
  void hold() const;
  void release() const;
  // For a place that keeps a pointer.
  void* word() const { return reinterpret_cast<void*>(word_); }
  static TraceSource from_word(void* word) {
    TraceSource source;
    source.word_ = reinterpret_cast<uintptr_t>(word);
    return source;
  }

  const char* name() const;    // no two have the same
  size_t object_size() const;  // bytes; the quantum of an arena; 0 of references
  int flags() const;           // KMC_TRACED, KMC_EVER_TRACED, KMC_NOTRACE
  bool can_be_traced() const { return !(flags() & KMC_NOTRACE); }
  bool is_zombie() const;
  // Objects that its callers hold; of an arena its direct callers; references. Exact when it is
  // quiet.
  uint64_t live() const;

  // The tracer's hands on it, as kmem_cache_master_flags, kmem_cache_cpu_flags,
  // kmem_cache_unused_flags and kmem_cache_trace_slot. An arena has no flags for each CPU.
  void change_flags(int set, int clear) const;
  void change_cpu_flags(int set, int clear) const;
  void set_unused_flags(int set) const;
  trace_table** trace_slot() const;

 private:
  static constexpr uintptr_t kArena = 1, kReferences = 2, kKind = 3;
  uintptr_t word_ = 0;
};

// --- Control: each may sleep, with interrupts on and no spinlock held. On failure nothing has
// changed and the error string is set.

// Several commands, one a line: start [depth=N] [sample=BYTES] [min=N] [max=N] [pid=N], stop,
// reset, mark. All lines are parsed before the first is done. EINVAL, EPERM, ENOSPC, EBUSY, ENOMEM.
Result<void> trace_command(TraceSource source, std::string_view text);
// The same for all that can be traced, but that `start` is for caches and arenas, and `refs` starts
// the traces of all kinds of references. And `limit BYTES` (of trace memory), `reap` (kmem_reap),
// `sweep` (trace_sweep), and `settle`: drains deferred work and waits until caches are quiet
// (ETIMEDOUT). A start holds for what is made later too, until all are stopped.
Result<void> trace_command_all(std::string_view text);
// Registered by higher layers: work that `settle` has done first (drain dead tasks, deferred
// frees). May sleep.
void trace_register_settle(void (*drain)());

// --- Dumps.

// A trace at one moment, formatted while it is read. The second of a trace waits until the first
// does not need the trace any more: EINTR. It takes a workspace; without memory, one that is kept
// for the purpose, and waits for that (dump_reserve.h): EINTR. ENOMEM: there is none. May sleep.
class TraceDump;
// Text of the dump from `offset` on, as for a file; 0 at its end. Reads must go forward (offset 0
// begins again). By one at a time.
Result<TraceDump*> trace_dump_open(TraceSource source);
Result<size_t> trace_dump_read(TraceDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_dump_close(TraceDump* dump);
// All traces at one moment, which read as abi/tracedump.h says, from any offset on and by several
// at once; 0 at its end. Opened as a TraceDump of each trace; needs them until it is closed.
class TraceBinaryDump;
Result<TraceBinaryDump*> trace_binary_open();
size_t trace_binary_read(TraceBinaryDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_binary_close(TraceBinaryDump* dump);
// "limit N used N stacks N contexts N untraced N sweeps N forgotten N", of trace memory, the tables
// that all traces share, what could not be traced when it was made, and the sweeps of these tables;
// a line "later NAME OPTIONS" for what is to
// be traced when it is made; and one line for each trace: state and counters, as text. Writes at
// most `size` bytes (no NUL) and returns the length that the whole text has. May sleep.
Result<size_t> trace_status(char* buffer, size_t size);

// Who has the memory: prints the stacks that hold most of what is traced to the log, before a
// process is killed because there is none; at most every ten seconds. Allocates nothing, and waits
// for no lock. Task context, no spinlock held.
void trace_report_out_of_memory();
// Once: a panic shows the same.
void trace_report_init();
