// One look: a search of all memory for unreached objects, with all CPUs stopped.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lib/result.h"
#include "reach/groups_impl.h"

namespace reach {

// The result of a look.
struct Findings {
  // For tests: called for each unreached object, while all CPUs are stopped.
  void (*observer)(void* argument, const Object& object, bool head) = nullptr;
  void* observer_argument = nullptr;

  uint64_t live = 0;          // number of live objects
  uint64_t overflows = 0;     // overflows of the stack of Reached
  uint64_t microseconds = 0;  // how long all CPUs were stopped
  Groups::Memory memory;
  std::optional<Groups> groups;

  // `remembered`: the addresses of the first heads that this look found. `returned`: how many heads
  // of the previous look are reached in this look. `returned_shown`: the first of these heads.
  static constexpr uint32_t kRemembered = 2048, kReturnedShown = 16;
  std::array<uint64_t, kRemembered> remembered;
  uint32_t remembered_count = 0;
  struct Returned {
    uint64_t address;
    char name[ARENA_NAME_MAX];
  };
  std::array<Returned, kReturnedShown> returned_shown;
  uint64_t returned = 0;
};

// Makes one look. ENOMEM with the error string set. One call at a time; may sleep, interrupts on,
// no spinlock held.
Result<void> look(Findings& findings);

}  // namespace reach
