// The tracer's interface for the rest of the kernel. trace/trace.cc explains how the tracer
// works, docs/tracer.md how to use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arena.h"
#include "core/ref.h"
#include "lib/result.h"
#include "slab.h"

// Makes the arena for trace memory, with its limit. Called once, after memory and CPUs are set up.
void trace_init();

// --- A source of a trace: a cache, an arena, or a class of references (RefClass in core/ref.h). A
// TraceSource is one word, is copied freely, and holds no reference by itself.
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

  // Returns the source after `source`; an empty one after the last. With an empty `source` returns
  // the first. The order is: all caches, all arenas, all classes of references; caches and arenas
  // come in order of creation. Takes a reference to the result and releases the caller's reference
  // to `source`, as kmem_cache_next() does. May sleep.
  static TraceSource next(TraceSource source);
  // Finds a source by name and takes a reference to it. Returns an empty source if there is none
  // with this name, or if it is a zombie (destroyed, but still in memory).
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
  // Number of live objects: of a cache, objects that callers hold; of an arena, allocations that
  // direct callers hold; of a class of references, references. Exact when the source is not in use.
  uint64_t live() const;

  // For the tracer only. These functions do for any source what kmem_cache_master_flags,
  // kmem_cache_cpu_flags, kmem_cache_unused_flags and kmem_cache_trace_slot do for a cache. An
  // arena has no per-CPU flags.
  void change_flags(int set, int clear) const;
  void change_cpu_flags(int set, int clear) const;
  void set_unused_flags(int set) const;
  trace_table** trace_slot() const;

 private:
  static constexpr uintptr_t kArena = 1, kReferences = 2, kKind = 3;
  uintptr_t word_ = 0;
};

// --- Control. These functions may sleep. The caller has interrupts on and holds no spinlock.

// Runs commands, one per line: start [depth=N] [sample=BYTES] [min=N] [max=N] [pid=N], stop, reset,
// mark; and the commands check, nocheck and scan, which control checking (slab.h). Parses all lines
// before it runs the first. Errors: EINVAL, EPERM, ENOSPC, EBUSY and ENOMEM, with the error string
// set. A command that fails changes no trace; the commands before it have run.
Result<void> trace_command(TraceSource source, std::string_view text);
// Runs the commands of trace_command() for all sources. `start` starts traces of caches and arenas
// only; `refs` starts traces of all classes of references. Further commands: `limit BYTES` limits
// trace memory, `reap` calls kmem_reap(), and `sweep` calls trace_sweep(). `settle` drains deferred
// work and waits until caches are quiet (ETIMEDOUT). A `start` also applies to caches and arenas
// that are made later, until a `stop` for all sources.
Result<void> trace_command_all(std::string_view text);
// Registers a function of a higher layer that `settle` calls first, for example to free dead tasks.
// `drain` may sleep.
void trace_register_settle(void (*drain)());

// --- Dumps.

// A dump of one trace as it was at one moment. The text is formatted while it is read. A second
// dump of the same trace waits until the first one has finished with the trace. A dump needs a
// workspace. When out of memory, it waits for a reserved workspace (dump_reserve.h), or fails with
// ENOMEM if none has been reserved. A signal ends either wait with EINTR. May sleep.
class TraceDump;
// trace_dump_read() reads the dump's text from `offset` on, as from a file; 0 at the end. Offsets
// must increase; offset 0 restarts the dump. A dump has one reader at a time.
Result<TraceDump*> trace_dump_open(TraceSource source);
Result<size_t> trace_dump_read(TraceDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_dump_close(TraceDump* dump);
// A dump of all traces at one moment, in the format of abi/tracedump.h. Several readers may read at
// once, from any offset; trace_binary_read() returns 0 at the end. trace_binary_open() waits for
// each trace as trace_dump_open() does, and fails with the same errors. The traces stay in use
// until the dump is closed.
class TraceBinaryDump;
Result<TraceBinaryDump*> trace_binary_open();
size_t trace_binary_read(TraceBinaryDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_binary_close(TraceBinaryDump* dump);
// Writes a first line "limit N used N stacks N contexts N untraced N sweeps N forgotten N". `limit`
// and `used` are bytes of trace memory. `stacks` and `contexts` count the entries of the tables
// that all traces share. `untraced` counts the sources that could not be traced when they were
// made. `sweeps` counts the sweeps of the tables, `forgotten` the entries that sweeps have removed.
// Then comes a line "later NAME OPTIONS" for each source that is to be traced when it is made, and
// a line for each trace, with its state and counters. Writes at most `size` bytes including the
// NUL, and returns the length of the whole text. May sleep.
Result<size_t> trace_status(char* buffer, size_t size);

// Copies the flags of all classes of references to this CPU. Called once on each CPU that starts,
// before it takes its first reference: `trace=` on the kernel command line has changed only the
// flags of the boot CPU. Interrupts off. (Caches have flags for all CPUs from the beginning.)
void trace_start_cpu();

// Logs a line for each name in the value of the kernel command line's `option`, the literal "trace"
// or "check", that nothing has: a cache may still be made later, but the name may also be wrong.
// May sleep. Called at the end of boot.
void trace_report_missing_names(std::string_view option);

// Logs the stacks that hold most of the traced memory. Called before a process is killed for lack
// of memory; does so at most once in ten seconds. If the stacks cannot be listed now, logs this
// fact at most once a second. Allocates nothing, and waits for no lock. Task context, no spinlock
// held.
void trace_report_out_of_memory();
// Makes a panic, and an NMI (core/nmi.h), print the summary of trace_report_out_of_memory(). Called
// once.
void trace_report_init();
