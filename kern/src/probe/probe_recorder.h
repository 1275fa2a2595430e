// What hits of a session do: the consumer of its probes.
//
// A hit looks up the rule of its function and does what that says: counts by stack and context,
// makes an event, or follows an object. The recorder knows nothing of commands and of how functions
// were found.
//
// Rules and options are fixed before the first hit, but for whether a rule counts plainly, which a
// rule does only while all hits are recorded. From then on a hit changes
//   per_cpu_   of its own CPU, with interrupts off
//   events_    without a lock
//   objects_   without a lock, or under a lock of a trace table's shard
// Control changes none of this while hits may come, except that clear() empties it: what is a CPU's
// in an interprocessor interrupt, which cannot land inside a hit.
//
// A hit may come with any locks held, also those that it takes to fetch a page from the arena.
// Its memory therefore comes from the pool of trace_memory.h, and only a hit without locks tops the
// pool up. The others do with what there is, and count what they cannot record.
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
  // No probe tells it any more. May sleep.
  ~ProbeRecorder();
  ProbeRecorder(const ProbeRecorder&) = delete;
  ProbeRecorder& operator=(const ProbeRecorder&) = delete;

  // --- Control, one call at a time. May sleep.

  // First of all. ENOMEM.
  Result<void> init();
  // Before the first hit: what hits do from now on. `rules`, of which a probe's tag is the index,
  // live as long as hits come; `actions` are those of all rules. It may fail and be done again.
  // ENOMEM.
  Result<void> prepare(const ProbeOptions& options, const ProbeRule* rules, uint8_t actions);
  // Whether hits do anything, from now on: not before all probes of a session are there. Changed
  // while hits may come.
  void set_recording(bool recording) { recording_.store(recording, std::memory_order_release); }
  // Forgets counts, events and objects.
  void clear();
  // For the sweeper, at any time from init() on: marks the stacks and contexts of counts, events
  // and calls under way.
  void mark(StoreMark& mark);
  // This CPU remembers no stacks. Interrupts off.
  void forget_recent();
  // Adds all CPUs' counts, which may be changing, to `counts` and finishes these. ENOMEM.
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
  bool selects_ = false;  // some hits are not wanted

  std::atomic<bool> recording_{false};

  // Changed by hits.
  ProbeEventStream events_;
  ProbeObjects objects_{events_};
};
