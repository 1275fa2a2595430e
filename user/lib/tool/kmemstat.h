// The lines of #mem/kmemstat: one for each cache, each arena and each class of counted references.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct KmemstatLine {
  std::string name;
  bool is_arena = false;
  bool is_references = false;
  uint64_t object_size = 0;  // bytes; for an arena, its quantum
  uint64_t total_bytes = 0, allocated_bytes = 0;
  // Live objects or references; for an arena, the live allocations of its direct callers.
  uint64_t live = 0;
  uint64_t allocations = 0, frees = 0;
  std::string trace;  // "off", "running", "stopped", or "never" for a cache that cannot be traced
};

// Parses the text of #mem/kmemstat and returns its lines in the same order. Throws
// std::runtime_error if the text is malformed.
std::vector<KmemstatLine> parse_kmemstat(std::string_view text);
// Reads and parses #mem/kmemstat. Throws std::runtime_error if that fails.
std::vector<KmemstatLine> read_kmemstat();
