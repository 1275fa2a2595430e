// The consumer of a session's probes: performs the actions of hits.
//
// A hit looks up the rule of its function and acts on it: counts by stack and context, makes an
// event, or follows an object. The recorder knows nothing of commands, and of how functions were
// found.
//
// Rules and options are fixed before the first hit, except that a rule may switch to plain counting
// and back, which it uses only while all hits are recorded. Hits then change
//   per_cpu_   of their own CPU, with interrupts off
//   events_    without a lock
//   objects_   without a lock, or under a lock of a trace table's shard
// Control changes none of this while hits may come, except that clear() empties it: per-CPU data in
// an interprocessor interrupt, which cannot land inside of a hit.
//
// A hit may come with any locks held, also those that are needed to fetch a page from the arena.
// Its memory therefore comes from the pool of trace_memory.h, and only a hit without locks refills
// the pool. The others use what is left, and count what they cannot record.
//
// Cost of a hit that is counted by a kernel stack of 11 frames: docs/speed.md.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/cpu.h"
#include "lib/result.h"
#include "probe/probe.h"
#include "probe/probe_counts.h"
#include "probe/probe_event_stream.h"
#include "probe/probe_objects.h"
#include "probe/probe_options.h"
#include "probe/probe_per_cpu.h"
#include "probe/probe_rule.h"

class ProbeRecorder final : public ProbeConsumer {
 public:
  ProbeRecorder() = default;
  // Its probes have been removed. May sleep.
  ~ProbeRecorder();
  ProbeRecorder(const ProbeRecorder&) = delete;
  ProbeRecorder& operator=(const ProbeRecorder&) = delete;

  // --- Control, one call at a time. May sleep.

  // Called first. ENOMEM.
  Result<void> init();
  // Called before the first hit: sets the actions of hits. A probe's tag is its index in `rules`,
  // which live as long as hits come; `actions` are those of all rules. May be repeated after a
  // failure. ENOMEM.
  Result<void> prepare(const ProbeOptions& options, const ProbeRule* rules, uint8_t actions);
  // Enables the actions of hits, once all probes of a session are armed, or disables them. Hits may
  // come meanwhile.
  void set_recording(bool recording) { recording_.store(recording, std::memory_order_release); }
  // Forgets counts, events and objects.
  void clear();
  // For the sweeper, at any time from init() on: marks the stacks and contexts of counts, events
  // and running calls.
  void mark(StoreMark& mark);
  // Forgets this CPU's recent stacks. Interrupts off.
  void forget_recent();
  // Adds all CPUs' counts, which may change meanwhile, to `counts` and finishes these. ENOMEM.
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

  // Fixed before the first hit.
  ProbePerCpu* per_cpu_ = nullptr;  // of all CPUs
  const ProbeRule* rules_ = nullptr;
  ProbeOptions options_;
  bool selects_ = false;  // some hits are filtered

  std::atomic<bool> recording_{false};

  // Changed by hits.
  ProbeEventStream events_;
  ProbeObjects objects_{events_};
};
