// What #mem/kmemstat says of each cache, arena and kind of references.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct KmemstatLine {
  std::string name;
  bool is_arena = false;
  bool is_references = false;
  uint64_t object_size = 0;  // of an arena its quantum
  uint64_t total_bytes = 0, allocated_bytes = 0;
  uint64_t live = 0;  // objects; of an arena those of direct callers; references
  uint64_t allocations = 0, frees = 0;
  std::string trace;  // "off", "running", "stopped", or "never": it cannot be traced
};

// All lines of a text of #mem/kmemstat, in its order. std::runtime_error if it is not one.
std::vector<KmemstatLine> parse_kmemstat(std::string_view text);
// As it is now. std::runtime_error if it cannot be read.
std::vector<KmemstatLine> read_kmemstat();
