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

// Makes the trace arena with its limit. Once, after memory and CPUs are set up.
void trace_init();

// --- A source of a trace: a cache, an arena or a kind of references. One word that is copied
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
  // nullptr if it is no cache.
  kmem_cache* cache() const {
    return word_ & kKind ? nullptr : reinterpret_cast<kmem_cache*>(word_);
  }
  struct arena* arena() const {
    return word_ & kArena ? reinterpret_cast<struct arena*>(word_ & ~kKind) : nullptr;
  }
  RefClass* references() const {
    return word_ & kReferences ? reinterpret_cast<RefClass*>(word_ & ~kKind) : nullptr;
  }

  // The source after `source`: all caches, then all arenas, in order of creation, then all kinds of
  // references. As kmem_cache_next: returns a reference and releases that of `source`. May sleep.
  static TraceSource next(TraceSource source);
  // By name, with a reference; none if there is none, or only a zombie.
  static TraceSource find(std::string_view name);
  // A reference keeps the structure and the trace. Releasing may sleep.
  void hold() const;
  void release() const;
  // The source as a pointer-sized value.
  void* word() const { return reinterpret_cast<void*>(word_); }
  static TraceSource from_word(void* word) {
    TraceSource source;
    source.word_ = reinterpret_cast<uintptr_t>(word);
    return source;
  }

  const char* name() const;    // unique
  size_t object_size() const;  // bytes; the quantum of an arena; 0 for references
  int flags() const;           // KMC_TRACED, KMC_EVER_TRACED, KMC_NOTRACE
  bool can_be_traced() const { return !(flags() & KMC_NOTRACE); }
  bool is_zombie() const;
  // Objects that callers hold (of an arena: direct callers), or references. Exact when it is quiet.
  uint64_t live() const;

  // For the tracer, as kmem_cache_master_flags, kmem_cache_cpu_flags, kmem_cache_unused_flags and
  // kmem_cache_trace_slot. An arena has no per-CPU flags.
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

// Runs commands, one per line: start [depth=N] [sample=BYTES] [min=N] [max=N] [pid=N], stop, reset,
// mark. All lines are parsed before the first runs. EINVAL, EPERM, ENOSPC, EBUSY, ENOMEM.
Result<void> trace_command(TraceSource source, std::string_view text);
// The same for all sources, except that `start` starts only caches and arenas, and `refs` starts
// all kinds of references. Further commands: `limit BYTES` (of trace memory), `reap` (kmem_reap),
// `sweep` (trace_sweep), and `settle`: drains deferred work and waits until caches are quiet
// (ETIMEDOUT). A start also applies to caches and arenas made later, until all are stopped.
Result<void> trace_command_all(std::string_view text);
// Registers work of a higher layer that `settle` does first (drain dead tasks, deferred frees). It
// may sleep.
void trace_register_settle(void (*drain)());

// --- Dumps.

// A trace at one moment, formatted while it is read. A second dump of the same trace waits until
// the first has finished with the trace: EINTR. A dump needs a workspace; when memory is out it
// waits for a reserved one (dump_reserve.h): EINTR. ENOMEM if that does not exist. May sleep.
class TraceDump;
// Reads the dump's text from `offset` on, as a file; 0 at its end. Offsets must increase; offset 0
// restarts. One reader at a time.
Result<TraceDump*> trace_dump_open(TraceSource source);
Result<size_t> trace_dump_read(TraceDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_dump_close(TraceDump* dump);
// All traces at one moment, in the format of abi/tracedump.h. Read from any offset, by several
// readers at once; 0 at its end. Opening has the conditions of a TraceDump of each trace; the
// traces stay in use until it is closed.
class TraceBinaryDump;
Result<TraceBinaryDump*> trace_binary_open();
size_t trace_binary_read(TraceBinaryDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_binary_close(TraceBinaryDump* dump);
// Writes "limit N used N stacks N contexts N untraced N sweeps N forgotten N": trace memory, the
// tables that all traces share, the sources that could not be traced when they were made, and the
// sweeps of the tables. Then a line "later NAME OPTIONS" for each source to be traced when it is
// made, and one line for each trace: state and counters. Writes at most `size` bytes (no NUL) and
// returns the length of the whole text. May sleep.
Result<size_t> trace_status(char* buffer, size_t size);

// Logs the stacks that hold most of the traced memory, before a process is killed for lack of
// memory; at most every ten seconds. Allocates nothing, and waits for no lock. Task context, no
// spinlock held.
void trace_report_out_of_memory();
// Makes a panic print the same. Once.
void trace_report_init();
