#include "fakes/planted.h"

#include <atomic>

namespace {
std::atomic<uint64_t> awake{0};
uint64_t bit(Planted bug) {
  return uint64_t{1} << static_cast<uint32_t>(bug);
}
}  // namespace

void wake(Planted bug) {
  awake |= bit(bug);
}
bool planted(Planted bug) {
  return (awake & bit(bug)) != 0;
}
