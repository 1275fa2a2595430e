#include "core/planted.h"

#ifdef CONFIG_PLANTED_BUGS
#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/boot.h"
#include "core/log.h"
#include "core/panic.h"

namespace {

#define PLANTED_NAME(enumerator, name) name,
constexpr std::string_view kNames[] = {PLANTED_BUGS(PLANTED_NAME)};
#undef PLANTED_NAME
constexpr unsigned kBits = 64;

// A bit for each bug.
constinit uint64_t awake[(std::size(kNames) + kBits - 1) / kBits] = {};

void wake(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames))
    panic("break=%.*s: no such bug (core/planted.h has the list)", static_cast<int>(name.size()),
          name.data());
  const auto bug = static_cast<size_t>(found - kNames);
  awake[bug / kBits] |= uint64_t{1} << bug % kBits;
  klog("broken on purpose: %.*s", static_cast<int>(name.size()), name.data());
}

}  // namespace

void planted_init() {
  size_t length;
  const char* const value = boot_option("break", &length);
  for (std::string_view rest(value ? value : "", value ? length : 0); !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    wake(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

bool planted(Planted bug) {
  const auto number = static_cast<uint32_t>(bug);
  return (awake[number / kBits] >> number % kBits & 1) != 0;
}
#endif
