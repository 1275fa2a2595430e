// The options of a session, for all its functions. Plain data.
#pragma once

#include <cstdint>

#include "lib/units.h"
#include "trace/record/options.h"

enum class ProbeStacks : uint8_t { kNone = 0, kKernel = 1, kUser = 2, kBoth = 3 };
constexpr bool has_kernel(ProbeStacks stacks) {
  return (static_cast<unsigned>(stacks) & 1) != 0;
}
constexpr bool has_user(ProbeStacks stacks) {
  return (static_cast<unsigned>(stacks) & 2) != 0;
}

// Says whether each program, each process or each thread has counts of its own. Programs are
// distinguished only in counts with user stacks.
enum class ProbeApart : uint8_t { kPrograms, kProcesses, kThreads };

// Most frames of a recorded stack.
inline constexpr uint32_t kProbeMaxDepth = 61;

struct ProbeOptions {
  static constexpr CpuId kAnyCpu{UINT32_MAX};

  // Counts are distinguished by the stacks that `stacks` names, and by `apart`.
  ProbeStacks stacks = ProbeStacks::kKernel;
  ProbeApart apart = ProbeApart::kPrograms;
  // Memory from mmap counts as an object.
  bool watch_memory = false;
  // If set, hits on other CPUs are not counted and make no events, and objects that other CPUs
  // allocate are not recorded.
  CpuId cpu = kAnyCpu;
  // `trace.depth` and `trace.pid` apply to all hits, the other fields to objects. For an object of
  // the kernel, `trace.pid` is compared with the PID of the allocating process.
  TraceOptions trace = {.depth = kProbeMaxDepth};

  bool wants_cpu(CpuId id) const { return cpu == kAnyCpu || cpu == id; }
  bool wants_pid(uint32_t pid) const { return trace.pid == 0 || trace.pid == pid; }
  // True if `trace.pid` or `cpu` excludes some hits.
  bool selects() const { return trace.pid != 0 || cpu != kAnyCpu; }
  // True if hits are counted by the kernel stack only, without filters.
  bool plain() const {
    return !selects() && apart == ProbeApart::kPrograms && stacks == ProbeStacks::kKernel;
  }
};
