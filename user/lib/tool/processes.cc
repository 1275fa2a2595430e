#include "tool/processes.h"

#include <dirent.h>

#include <charconv>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "tool/files.h"

std::vector<uint32_t> process_ids() {
  std::vector<uint32_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return pids;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    uint32_t pid = 0;
    const auto [end, error] = std::from_chars(name.begin(), name.end(), pid);
    if (error == std::errc() && end == name.end()) pids.push_back(pid);
  }
  return pids;
}

std::optional<std::string> program_of_process(uint32_t pid) {
  std::string text;
  try {
    text = read_file("/proc/" + std::to_string(pid) + "/status");
  } catch (const std::runtime_error&) {
    return {};
  }
  constexpr std::string_view kKey = "\nPath:\t";
  const std::size_t key = text.find(kKey);
  if (key == text.npos) return {};
  const std::size_t start = key + kKey.size();
  return text.substr(start, text.find('\n', start) - start);
}
