// All memory at one moment: with all CPUs stopped, the index of all live objects, in which is
// marked what can be reached from the roots.
#pragma once

#include <cstdint>
#include <span>

#include "lib/result.h"
#include "lib/units.h"
#include "reach/index.h"
#include "reach/mark.h"
#include "reach/objects.h"
#include "reach/roots.h"
#include "reach/visitor.h"

namespace reach {

// The kernel's own memory, as a Space (mark.h).
struct Here {
  std::span<const Source> sources;

  static const uint64_t* at(uint64_t address) { return reinterpret_cast<const uint64_t*>(address); }
  template <typename Marker>
  void walk(const Run& run, uint64_t address, Marker& marker) {
    MarkingVisitor<Marker> visitor(marker);
    find_walker(sources[run.source].cache)(reinterpret_cast<const void*>(address), visitor);
  }
};

struct Survey {
  const Index& index;
  Here& space;
  std::span<Source> sources;  // of the numbers that runs have
  std::span<Entry> stack;     // for a marker
  uint32_t overflows;         // of the stack
  Nanoseconds begin;          // when all CPUs stood still
};

// What is done with it. All CPUs are stopped, interrupts off: nothing may be allocated or freed,
// no sleeping lock taken.
class SurveyWork {
 public:
  // Before each try: memory of the work's own that depends on how much there is. May sleep. False:
  // there is none.
  virtual bool prepare(const Needs&) { return true; }
  virtual void look(const Survey& survey) = 0;

 protected:
  ~SurveyWork() = default;
};

// Calls work.look() once. ENOMEM with the error string set. Several may ask at once: each has
// memory of its own, and CPUs stop for one after the other. May sleep; interrupts on, no spinlock
// held.
Result<void> survey(SurveyWork& work);

}  // namespace reach
