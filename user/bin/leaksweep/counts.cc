#include "counts.h"

#include <cstring>
#include <stdexcept>

#include "tool/files.h"
#include "tool/kmemstat.h"

namespace {

// True for the allocator's own caches except kmem_cache, and for the quantum caches of pages. They
// are not compared: in most of them, the number of live objects depends also on how many free
// objects the allocator keeps.
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
  for (const KmemstatLine& line : read_kmemstat()) {
    if (is_the_allocator_s(line.name)) continue;
    counts[line.name] = {.objects = static_cast<int64_t>(line.live),
                         .bytes = static_cast<int64_t>(line.allocated_bytes)};
  }
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
