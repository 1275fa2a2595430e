// The outstanding objects of a session: allocated by its functions and mmap, and not yet freed.
//
// A call of an allocation function is kept (probe_pairs.h) until it returns with the object: the
// outermost one of each thread, kernel task or CPU's interrupts. Nested calls are part of it. The
// object then becomes a record of a trace table, with the stack of the call. An object of a program
// belongs to the process, whose PID is in the record. An object of the kernel has no owner, and
// anybody frees it.
//
// Pairs and tables are made, and their options set, before the first hit. Hits change the pairs
// without a lock and a table under its shards' locks; they hold one at a time. Other events of
// processes (exit, exec, mmap, munmap) keep probes off while they use the same data.
#pragma once

#include <cstdint>

#include "core/cpu.h"
#include "lib/result.h"
#include "probe/probe.h"
#include "probe/probe_event_stream.h"
#include "probe/probe_options.h"
#include "probe/probe_pairs.h"
#include "probe/probe_per_cpu.h"
#include "probe/probe_rule.h"
#include "store/shared_tables.h"

class TraceBinary;
class TraceTable;

class ProbeObjects {
 public:
  // `events` gets objects, if it wants them.
  explicit ProbeObjects(ProbeEventStream& events) : events_(events) {}
  ~ProbeObjects();
  ProbeObjects(const ProbeObjects&) = delete;
  ProbeObjects& operator=(const ProbeObjects&) = delete;

  // --- Control. May sleep.

  // Called before the first hit: makes the data that `options` and the actions of all rules need.
  // May be repeated after a failure. ENOMEM.
  Result<void> prepare(const ProbeOptions& options, uint8_t actions);
  // Called while no hits come: abandons running calls, whose returns will not be reported.
  void forget_calls();
  // Calls of allocation functions that were abandoned since clear() (probe_pairs.h).
  uint64_t abandoned() const;
  // Forgets all objects.
  void clear();
  // For the sweeper, at any time: marks the stacks of running calls. The tables are marked
  // separately.
  void mark_calls(StoreMark& mark);
  // Chooses the tables for a dump, as sources of the session with this number. ENOMEM.
  Result<void> choose_for(TraceBinary& dump, uint32_t session, TracePhase phase);

  // --- Hits. Interrupts and probes off, any lock may be held.

  // A function whose rule allocates or frees is called or returns. False: something was lost.
  bool follow(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, ProbePerCpu& per_cpu);

  // --- The current process, beside hits. Interrupts on, unless a line says otherwise.

  void thread_left(uint32_t id);
  void process_left(uint32_t pid, ProcessLeft how);
  // Both with watch_memory only. This one with interrupts and probes off.
  void memory_mapped(uint64_t address, uint64_t size, const Cpu& cpu, ProbePerCpu& per_cpu);
  void memory_unmapped(uint64_t address, uint64_t size);

 private:
  Result<void> make_table(TraceTable** table);
  void release();
  // Restores the object that a call could have freed but did not.
  auto put_back() {
    return [this](const ProbeCall& call) { keep_old(call); };
  }
  void keep_old(const ProbeCall& call);
  bool allocation_called(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                         ProbePerCpu& per_cpu);
  bool allocation_returns(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu);
  bool free_called(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu);

  ProbeEventStream& events_;

  // Fixed before the first hit.
  ProbeOptions options_;
  ProbePairs* pairs_ = nullptr;    // nullptr, like objects_: no function allocates or frees
  uint64_t abandoned_before_ = 0;  // at the last clear()
  TraceTable* objects_ = nullptr;  // of functions
  TraceTable* memory_ = nullptr;   // of mmap; nullptr: not watched
};
