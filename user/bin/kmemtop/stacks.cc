#include "stacks.h"

#include <utility>

#include "tool/files.h"
#include "traces.h"

namespace {

// The word after ` KEY ` in the line; empty if the line has no such key.
std::string_view value_of(std::string_view line, std::string_view key) {
  const std::string wanted = ' ' + std::string(key) + ' ';
  std::size_t at = line.find(wanted);
  if (at == line.npos) return {};
  at += wanted.size();
  return line.substr(at, line.find(' ', at) - at);
}

}  // namespace

void StackReader::take_counters(std::string_view line) {
  const std::string_view stacks = value_of(line, "stacks");
  stacks_.summary = std::string(value_of(line, "live")) + " live, " +
                    std::string(value_of(line, "bytes")) + " bytes, " +
                    std::string(value_of(line, "untracked")) + " not recorded, " +
                    std::string(stacks) + (stacks == "1" ? " stack" : " stacks");
}

bool StackReader::take(std::string_view line) {
  if (stacks_.state.empty()) {
    stacks_.state = value_of(line, "state");
  } else if (line.starts_with("seen ")) {
    take_counters(line);
  } else if (!line.starts_with('\t')) {
    in_group_ = line.find(" from stack") != line.npos || line.find(" without stack") != line.npos;
    if (in_group_ && stacks_.groups.size() == kMostGroups) {
      stacks_.more = true;
      return false;
    }
    if (in_group_) stacks_.groups.push_back({.heading = std::string(line), .lines = {}});
  } else if (in_group_ && !line.starts_with("\t\t")) {
    const std::string_view text = line.substr(1, line.find(", build id ") - 1);
    in_group_ = !text.starts_with("0x");  // skips the lines of objects
    if (in_group_) stacks_.groups.back().lines.emplace_back(text);
  }
  return true;
}

TopStacks read_stacks(const std::string& name) {
  StackReader reader;
  read_lines_while(trace_file(name), [&](std::string_view line) { return reader.take(line); });
  return std::move(reader).result();
}
