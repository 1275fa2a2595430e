// Parses a binary trace dump (abi/tracedump.h). A dump is read from #mem/tracedump, or from the
// file `outstanding` of a probe session.
#pragma once

#include <abi/tracedump.h>

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

class Dump {
 public:
  struct Source {
    abi_tracedump_source header;
    std::string name;
    std::vector<abi_tracedump_record> records;  // sorted by stack id, then by time, oldest first
  };
  struct Context {
    abi_tracedump_context header;
    std::string path;
  };

  // Reads and parses the file `path`. Throws std::runtime_error if the file cannot be read, is
  // damaged, or has an unknown version.
  static Dump read(const std::string& path = "#mem/tracedump");

  uint64_t time() const { return time_; }  // nanoseconds since boot
  const std::vector<Source>& sources() const { return sources_; }
  // Return addresses, the innermost caller first. Empty for id 0, which means that no stack was
  // recorded.
  std::span<const uint64_t> stack(uint32_t id) const;
  bool is_user_stack(uint32_t id) const;
  // nullptr for id 0, which means that no context was recorded.
  const Context* context(uint32_t id) const;

 private:
  Dump() = default;
  void parse(std::span<const char> file);

  uint64_t time_ = 0;
  std::vector<Source> sources_;
  std::unordered_map<uint32_t, Context> contexts_;
  std::unordered_map<uint32_t, abi_tracedump_stack> stacks_;
  std::vector<uint64_t> frames_;
};
