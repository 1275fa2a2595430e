// A survey is the state of all memory at one moment, while all CPUs are stopped: the index of all
// live objects, in which the objects that can be reached from the roots are noted as reached.
#pragma once

#include <cstdint>
#include <span>

#include "lib/result.h"
#include "lib/units.h"
#include "reach/index.h"
#include "reach/objects_impl.h"
#include "reach/reached.h"
#include "reach/roots_impl.h"
#include "reach/visitor_impl.h"

namespace reach {

// The kernel's own memory, as a Space (reached.h).
struct Here {
  std::span<const Source> sources;

  static const uint64_t* at(uint64_t address) { return reinterpret_cast<const uint64_t*>(address); }
  template <typename Reached>
  void walk(const Run& run, uint64_t address, Reached& reached) {
    ReachingVisitor<Reached> visitor(reached);
    find_walker(sources[run.source].cache)(reinterpret_cast<const void*>(address), visitor);
  }
};

struct Survey {
  const Index& index;
  Here& space;
  std::span<Source> sources;  // indexed by Run::source
  std::span<Entry> stack;     // the stack of Reached, which further searches may use
  uint32_t overflows;         // how often the stack overflowed
  Nanoseconds begin;          // time since boot when all CPUs had stopped
};

// The work that is done on a survey. look() runs with all CPUs stopped and interrupts off: it must
// not allocate, free, or take a sleeping lock.
class SurveyWork {
 public:
  // Allocates memory whose size depends on the size of the index. Called with CPUs running. If the
  // memory of a survey proves too small, the survey is repeated, and calls prepare() again. May
  // sleep. False if there is no memory.
  virtual bool prepare(const Needs&) { return true; }
  virtual void look(const Survey& survey) = 0;

 protected:
  ~SurveyWork() = default;
};

// Makes a survey and calls work.look() once. ENOMEM with the error string set. Concurrent calls are
// possible: each has its own memory, and CPUs stop for one call after the other. May sleep;
// interrupts on, no spinlock held.
Result<void> survey(SurveyWork& work);

}  // namespace reach
