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

// --- A source of a trace: a cache, an arena or a kind of references. A TraceSource is one word, is
// copied freely, and holds no reference by itself.
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
  // Returns the cache; nullptr if the source is not a cache.
  kmem_cache* cache() const {
    return word_ & kKind ? nullptr : reinterpret_cast<kmem_cache*>(word_);
  }
  struct arena* arena() const {
    return word_ & kArena ? reinterpret_cast<struct arena*>(word_ & ~kKind) : nullptr;
  }
  RefClass* references() const {
    return word_ & kReferences ? reinterpret_cast<RefClass*>(word_ & ~kKind) : nullptr;
  }

  // Returns the source after `source`: first all caches, then all arenas, in order of creation,
  // then all kinds of references. With an empty `source` returns the first one; after the last
  // returns an empty one. As kmem_cache_next() does, takes a reference to the result and releases
  // the caller's reference to `source`. May sleep.
  static TraceSource next(TraceSource source);
  // Finds a source by name, and takes a reference. Empty if there is no such source, or only a
  // zombie.
  static TraceSource find(std::string_view name);
  // A reference keeps the source's structure and its trace in memory. Releasing may sleep.
  void hold() const;
  void release() const;
  // The source as a pointer-sized value.
  void* word() const { return reinterpret_cast<void*>(word_); }
  static TraceSource from_word(void* word) {
    TraceSource source;
    source.word_ = reinterpret_cast<uintptr_t>(word);
    return source;
  }

  const char* name() const;    // the source's unique name
  size_t object_size() const;  // bytes; the quantum of an arena; 0 for references
  int flags() const;           // a set of KMC_TRACED, KMC_EVER_TRACED, KMC_NOTRACE
  bool can_be_traced() const { return !(flags() & KMC_NOTRACE); }
  bool is_zombie() const;
  // Number of objects that callers hold (of an arena: direct callers), or of references. Exact when
  // the source is not in use.
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

// --- Control: each may sleep, with interrupts on and no spinlock held.

// Runs commands, one per line: start [depth=N] [sample=BYTES] [min=N] [max=N] [pid=N], stop, reset,
// mark, and for checking (slab.h) check, nocheck, scan. All lines are parsed before the first runs.
// EINVAL, EPERM, ENOSPC, EBUSY, ENOMEM, with the error string set. A command that fails changes no
// trace; the commands before it have run.
Result<void> trace_command(TraceSource source, std::string_view text);
// Runs the commands of trace_command() for all sources, except that `start` starts only caches and
// arenas; `refs` starts all kinds of references. Further commands: `limit BYTES` (of trace memory),
// `reap` (kmem_reap), `sweep` (trace_sweep), and `settle`: drains deferred work and waits until
// caches are quiet (ETIMEDOUT). A start also applies to caches and arenas made later, until a
// `stop` for all sources.
Result<void> trace_command_all(std::string_view text);
// Registers work of a higher layer that `settle` does first (drain dead tasks, deferred frees).
// `drain` may sleep.
void trace_register_settle(void (*drain)());

// --- Dumps.

// A trace at one moment, formatted while it is read. A second dump of the same trace waits until
// the first has finished with the trace. A dump needs a workspace; when out of memory it waits for
// a reserved one (dump_reserve.h), and fails with ENOMEM if none is reserved. A signal ends both
// waits: EINTR. May sleep.
class TraceDump;
// trace_dump_read() reads the dump's text from `offset` on, as from a file; 0 at the end. Offsets
// must increase; offset 0 restarts the dump. A dump has one reader at a time.
Result<TraceDump*> trace_dump_open(TraceSource source);
Result<size_t> trace_dump_read(TraceDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_dump_close(TraceDump* dump);
// All traces at one moment, in the format of abi/tracedump.h. Several readers may read at once,
// from any offset; 0 at the end. Opening waits and fails as trace_dump_open() of each trace does.
// The traces stay in use until the dump is closed.
class TraceBinaryDump;
Result<TraceBinaryDump*> trace_binary_open();
size_t trace_binary_read(TraceBinaryDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_binary_close(TraceBinaryDump* dump);
// Writes "limit N used N stacks N contexts N untraced N sweeps N forgotten N": the limit and the
// used bytes of trace memory; the stacks and contexts in the tables that all traces share; the
// sources that could not be traced when they were made; the sweeps of the tables, and how many
// entries they forgot. Then a line "later NAME OPTIONS" for each source to be traced when it is
// made, and one line for each trace: state and counters. Writes at most `size` bytes including the
// NUL, and returns the length of the whole text. May sleep.
Result<size_t> trace_status(char* buffer, size_t size);

// Logs the stacks that hold most of the traced memory, before a process is killed for lack of
// memory; at most every ten seconds. Allocates nothing, and waits for no lock. Task context, no
// spinlock held.
void trace_report_out_of_memory();
// Makes a panic, and an NMI (core/nmi.h), print the summary of trace_report_out_of_memory(). Called
// once.
void trace_report_init();
