#include "counts.h"

#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tool/files.h"

namespace {

// Its live objects say what is cached, not what anybody has.
bool is_the_allocator_s(const std::string& name) {
  return name.starts_with("kmem_slab") || name.starts_with("kmem_bufctl") ||
         name.starts_with("kmem_hash") || name.starts_with("kmem_magazine") ||
         name.starts_with("page_");
}

}  // namespace

Counts counts_at_rest() {
  if (const int error = write_command("#mem/kmemtrace/ctl", "settle\n"))
    throw std::runtime_error(std::string("the kernel does not come to rest: ") +
                             std::strerror(error));
  Counts counts;
  read_lines("#mem/kmemstat", [&](std::string_view line) {
    std::istringstream words{std::string(line)};
    std::string name, type;
    uint64_t object_size = 0, total = 0;
    Count count;
    words >> name >> type >> object_size >> total >> count.bytes >> count.objects;
    if (words && (type == "A" || type == "S") && !is_the_allocator_s(name)) counts[name] = count;
  });
  if (counts.empty()) throw std::runtime_error("#mem/kmemstat has no counts");
  return counts;
}

Counts rises(const Counts& before, const Counts& after) {
  Counts risen;
  for (const auto& [name, count] : after) {
    const auto found = before.find(name);
    const Count was = found == before.end() ? Count() : found->second;
    if (count.objects > was.objects || count.bytes > was.bytes)
      risen[name] = {count.objects - was.objects, count.bytes - was.bytes};
  }
  return risen;
}

Counts both(const Counts& some, const Counts& others) {
  Counts result;
  for (const auto& entry : some)
    if (others.contains(entry.first)) result.insert(entry);
  return result;
}
