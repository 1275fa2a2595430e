// Searches for unreachable objects, for tests.
//
// A test must not hold the addresses of its objects during a search, or the search would reach the
// objects. So it stores the complements of the addresses. Code that uses the addresses runs in
// another task. After that task has ended, its stack is no root.
#pragma once

#include <cstdint>
#include <new>
#include <span>

#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "reach/look_impl.h"
#include "tests/team.h"

// An address in a form that the search does not recognise.
struct Hidden {
  uint64_t complement = ~uint64_t{0};
  Hidden() = default;
  explicit Hidden(const void* pointer) : complement(~reinterpret_cast<uint64_t>(pointer)) {}
  bool is(uint64_t address) const { return complement == ~address; }
  uint64_t value() const { return ~complement; }
  void* get() const { return reinterpret_cast<void*>(value()); }
};

// Runs body(argument) in a task of its own, and waits until the task is freed.
inline void in_another_task(void (*body)(void*), void* argument) {
  Team team(body, argument);
  team.add();
  team.join();
  task_drain_dead();
}

// Searches for unreachable objects, with or without an observer. The results are in the tracer's
// memory, which is not scanned.
class LookAtAll {
 public:
  LookAtAll() : findings_(new (trace_copy_alloc(sizeof(reach::Findings))) reach::Findings) {}
  ~LookAtAll() { trace_copy_free(findings_, sizeof(reach::Findings)); }
  reach::Findings* operator->() { return findings_; }
  [[gnu::noinline]] void look() { EXPECT(reach::look(*findings_).ok()); }

 private:
  reach::Findings* const findings_;
};

// An object, and the results of a search: whether the object is unreachable, and whether it is a
// head. A head is defined in heads.h.
struct Candidate {
  Hidden object;
  bool found = false, head = false;
};
inline void look_for(std::span<Candidate> candidates) {
  LookAtAll all;
  all->observer = [](void* wanted, const reach::Object& object, bool head) {
    for (Candidate& candidate : *static_cast<std::span<Candidate>*>(wanted)) {
      if (!candidate.object.is(object.address())) continue;
      candidate.found = true;
      candidate.head = head;
    }
  };
  all->observer_argument = &candidates;
  all.look();
}
