// The outstanding objects of a session: allocated by its functions and mmap, and not yet freed.
//
// For each thread of a program, each kernel task, and the interrupts of each CPU, the outermost
// call of an allocation function is kept (probe/pairs_impl.h) until it returns. Nested calls are
// part of the outermost call. When the kept call returns an object, the object becomes a record of
// a trace table, with the stack of the call. An object of a program belongs to the process, whose
// PID is in the record. An object of the kernel has no owner, and any code may free it.
//
// The kept calls (ProbePairs) and the tables are created, and their options are set, before the
// first hit. Hits change the kept calls without a lock, and a table under the locks of its shards,
// one shard's lock at a time. Code outside of hits also uses this data, at exit, exec, mmap and
// munmap; this code keeps probes off meanwhile.
#pragma once

#include <cstdint>

#include "core/cpu.h"
#include "intern/shared_tables.h"
#include "lib/result.h"
#include "probe/event_stream_impl.h"
#include "probe/options_impl.h"
#include "probe/pairs_impl.h"
#include "probe/per_cpu_impl.h"
#include "probe/probe.h"
#include "probe/rule_impl.h"

class TraceBinary;
class TraceTable;

class ProbeObjects {
 public:
  // From the call of events.open() on, each allocation and each free is put into `events`.
  explicit ProbeObjects(ProbeEventStream& events) : events_(events) {}
  ~ProbeObjects();
  ProbeObjects(const ProbeObjects&) = delete;
  ProbeObjects& operator=(const ProbeObjects&) = delete;

  // --- Control. May sleep.

  // Called before the first hit: makes the data that `options` and the actions of all rules need.
  // May be repeated after a failure. ENOMEM.
  Result<void> prepare(const ProbeOptions& options, uint8_t actions);
  // Called while no hits come: forgets running calls, because their returns will not be reported.
  void forget_calls();
  // Number of outermost calls of allocation functions that, since clear(), ended without a return
  // or were forgotten by forget_calls().
  uint64_t abandoned() const;
  // Forgets all objects.
  void clear();
  // For the sweeper (intern/sweeper.h), at any time: retains the stacks of running calls. The
  // tables are retained separately.
  void retain_calls(Retained& retained);
  // Makes the tables the sources of `dump`, with the names probe/N and probe/N/mmap. N is
  // `session`, the number of the session. ENOMEM.
  Result<void> choose_for(TraceBinary& dump, uint32_t session, TracePhase phase);

  // --- Hits. Interrupts and probes off, any lock may be held.

  // Called when a function whose rule allocates or frees is called or returns. False if an event
  // was lost, if a call could not be followed, or if the object's address cannot be read or does
  // not fit in a record. If there is no memory for a record, the table counts the object as
  // dropped, and this does not make the result false. For rules that free, always true.
  bool follow(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, ProbePerCpu& per_cpu);

  // --- Changes of the current process, outside of hits. Interrupts on, unless a line says
  // otherwise.

  void thread_left(uint32_t id);
  void process_left(uint32_t pid, ProcessLeft how);
  // memory_mapped() and memory_unmapped() are called only if `watch_memory` is set. memory_mapped()
  // is called with interrupts and probes off.
  void memory_mapped(uint64_t address, uint64_t size, const Cpu& cpu, ProbePerCpu& per_cpu);
  void memory_unmapped(uint64_t address, uint64_t size);

 private:
  Result<void> make_table(TraceTable** table);
  void release();
  // While a realloc runs, the record of the old object has a temporary owner (waiting() in
  // probe/objects.cc). put_back() returns a function that restores the record's owner. This
  // function is called if the realloc fails, does not return or cannot be followed.
  auto put_back() {
    return [this](const ProbeCall& call) { keep_old(call); };
  }
  void keep_old(const ProbeCall& call);
  bool allocation_called(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                         ProbePerCpu& per_cpu);
  bool allocation_returns(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu);
  bool free_called(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu);

  ProbeEventStream& events_;

  // All but abandoned_before_ are fixed before the first hit.
  ProbeOptions options_;
  ProbePairs* pairs_ = nullptr;    // nullptr: no function allocates or frees
  uint64_t abandoned_before_ = 0;  // ProbePairs::abandoned() at the last clear()
  TraceTable* objects_ = nullptr;  // objects that functions allocated; exists if `pairs_` does
  TraceTable* memory_ = nullptr;   // memory mapped by mmap; nullptr: not watched
};
