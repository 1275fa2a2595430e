// What the user of a session chooses for all its functions. Plain data.
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

// Whose counts are told apart. Of programs only those whose stacks are.
enum class ProbeApart : uint8_t { kPrograms, kProcesses, kThreads };

// Frames of a stack.
inline constexpr uint32_t kProbeMaxDepth = 61;

struct ProbeOptions {
  static constexpr uint32_t kAnyCpu = UINT32_MAX;

  // Counts of different ones are told apart.
  ProbeStacks stacks = ProbeStacks::kKernel;
  ProbeApart apart = ProbeApart::kPrograms;
  // Memory from mmap is an object.
  bool watch_memory = false;
  // Hits elsewhere are filtered.
  uint32_t cpu = kAnyCpu;
  // Depth and pid are for all hits, the rest is for objects. Of objects of the kernel, pid is who
  // allocates.
  TraceOptions trace = {.depth = kProbeMaxDepth};

  bool wants_cpu(uint32_t id) const { return cpu == kAnyCpu || cpu == id; }
  bool wants_pid(uint32_t pid) const { return trace.pid == 0 || trace.pid == pid; }
  // Some hits are not wanted.
  bool selects() const { return trace.pid != 0 || cpu != kAnyCpu; }
  // A count needs no more than the kernel stack.
  bool plain() const {
    return !selects() && apart == ProbeApart::kPrograms && stacks == ProbeStacks::kKernel;
  }
};
