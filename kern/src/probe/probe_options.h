// The options of a session, for all its functions. Plain data.
#pragma once

#include <cstdint>

#include "trace/trace_options.h"

enum class ProbeStacks : uint8_t { kNone = 0, kKernel = 1, kUser = 2, kBoth = 3 };
constexpr bool has_kernel(ProbeStacks stacks) {
  return (static_cast<unsigned>(stacks) & 1) != 0;
}
constexpr bool has_user(ProbeStacks stacks) {
  return (static_cast<unsigned>(stacks) & 2) != 0;
}

// Counts are kept per program, process or thread. Programs are distinguished only for user stacks.
enum class ProbeApart : uint8_t { kPrograms, kProcesses, kThreads };

// Frames of a stack.
inline constexpr uint32_t kProbeMaxDepth = 61;

struct ProbeOptions {
  static constexpr uint32_t kAnyCpu = UINT32_MAX;

  // Counts are separated by these stacks and by `apart`.
  ProbeStacks stacks = ProbeStacks::kKernel;
  ProbeApart apart = ProbeApart::kPrograms;
  // Memory from mmap counts as an object.
  bool watch_memory = false;
  // Hits on other CPUs are filtered.
  uint32_t cpu = kAnyCpu;
  // Depth and pid apply to all hits, the others to objects. For an object of the kernel, pid is
  // that of the allocating process.
  TraceOptions trace = {.depth = kProbeMaxDepth};

  bool wants_cpu(uint32_t id) const { return cpu == kAnyCpu || cpu == id; }
  bool wants_pid(uint32_t pid) const { return trace.pid == 0 || trace.pid == pid; }
  // Some hits are filtered.
  bool selects() const { return trace.pid != 0 || cpu != kAnyCpu; }
  // A count needs the kernel stack only.
  bool plain() const {
    return !selects() && apart == ProbeApart::kPrograms && stacks == ProbeStacks::kKernel;
  }
};
