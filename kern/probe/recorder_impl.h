// The consumer of a session's probes: performs the actions of hits.
//
// A hit looks up the rule of its function and acts on it: counts by stack and context, makes an
// event, or follows an object. The recorder does not know commands, nor how functions were found.
//
// Rules and options are fixed before the first hit, except that a rule may switch to plain counting
// (kProbeCountsPlainly) and back. A rule counts plainly only while recording is enabled.
//
// Hits change per_cpu_ of their own CPU with interrupts off, events_ without a lock, and objects_
// without a lock or under a lock of a trace table's shard. While hits may come, clear() is the only
// control function that changes this data. clear() empties per-CPU data in an interprocessor
// interrupt, which cannot land inside of a hit.
//
// A hit may come with any locks held, even the locks that are needed to fetch a page from the
// arena. Memory for hits therefore comes from the pool of trace_memory.h. A hit refills the pool
// only if the probed code has interrupts on and the CPU holds no lock. Other hits use the pages
// that are left in the pool; hits that cannot be recorded are counted as lost.
//
// Cost of a hit that is counted by a kernel stack of 11 frames: docs/speed.md.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/cpu.h"
#include "lib/result.h"
#include "probe/counts_impl.h"
#include "probe/event_stream_impl.h"
#include "probe/objects_impl.h"
#include "probe/options_impl.h"
#include "probe/per_cpu_impl.h"
#include "probe/probe.h"
#include "probe/rule_impl.h"

class ProbeRecorder final : public ProbeConsumer {
 public:
  ProbeRecorder() = default;
  // The recorder's probes must have been removed. May sleep.
  ~ProbeRecorder();
  ProbeRecorder(const ProbeRecorder&) = delete;
  ProbeRecorder& operator=(const ProbeRecorder&) = delete;

  // --- Control, one call at a time. May sleep.

  // Allocates the per-CPU data. Called before all other functions. ENOMEM.
  Result<void> init();
  // Called before the first hit: sets the actions of hits. A probe's tag is the index of its rule
  // in `rules`, which must exist as long as hits come. `actions` has the bits of all rules'
  // actions. May be repeated after a failure. ENOMEM.
  Result<void> prepare(const ProbeOptions& options, const ProbeRule* rules, uint8_t actions);
  // Enables or disables the actions of hits. They are enabled when all probes of a session are
  // armed. Hits may come meanwhile.
  void set_recording(bool recording) { recording_.store(recording, std::memory_order_release); }
  // Forgets counts, events and objects.
  void clear();
  // For the sweeper (intern/sweeper.h), at any time from init() on: retains the stacks and contexts
  // of counts, events and running calls.
  void retain(Retained& retained);
  // Forgets this CPU's recent user stacks. Interrupts off.
  void forget_recent();
  // Adds the counts of all CPUs, which may change meanwhile, to `counts`, and calls
  // counts.finish(). Returns the sum of the tallies. ENOMEM.
  Result<ProbeTallies> copy_counts(ProbeCounts& counts) const;

  ProbeEventStream& events() { return events_; }
  ProbeObjects& objects() { return objects_; }

  // --- Probes.

  void hit(const ProbeHit& hit) override;
  void thread_left(uint32_t id) override;
  void process_left(uint32_t pid, ProcessLeft how) override;
  void memory_mapped(uint64_t address, uint64_t size) override;
  void memory_unmapped(uint64_t address, uint64_t size) override;

 private:
  void forget_counts();
  bool wanted(const Cpu& cpu) const;
  bool follows(const ProbeRule& rule) const;
  void hit_slowly(const ProbeHit& hit);
  void count(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, ProbePerCpu& per_cpu);
  void act(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, ProbePerCpu& per_cpu);
  bool put_event(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu);

  // These are fixed before the first hit.
  ProbePerCpu* per_cpu_ = nullptr;  // the data of all CPUs
  const ProbeRule* rules_ = nullptr;
  ProbeOptions options_;
  bool selects_ = false;  // the options exclude some hits

  std::atomic<bool> recording_{false};

  // Hits change these.
  ProbeEventStream events_;
  ProbeObjects objects_{events_};
};
