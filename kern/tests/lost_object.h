// A single object that no root leads to, for tests of the search for unreachable objects.
#pragma once

#include "arch/x86_64/time.h"
#include "kmalloc.h"
#include "reach/whatis.h"
#include "tests/reach_looks.h"

[[gnu::noinline]] inline bool is_found(Hidden object) {
  Candidate one{.object = object};
  look_for({&one, 1});
  return one.found;
}

inline void note_who_knows(Hidden object) {
  Result<WhatisAnswer*> answer = whatis_answer_make(object.value());
  if (!answer) return;
  ktest_note(whatis_answer_text(*answer));
  whatis_answer_free(*answer);
}

// True if look() returns true, which searches for a lost object. A stale word with the object's
// address may remain in an unwritten part of some stack, so this function calls look() repeatedly
// and lets other tasks use their stacks in between.
template <typename Look>
bool in_time(Look look) {
  constexpr int kLooks = 10;
  for (int i = 0; i < kLooks; i++) {
    if (look()) return true;
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{20'000'000}));
    in_another_task([](void*) { task_yield(); }, nullptr);
  }
  return false;
}
inline bool is_found_in_time(Hidden object) {
  if (in_time([object] { return is_found(object); })) return true;
  note_who_knows(object);
  return false;
}

inline void allocate_lost(void* place) {
  *static_cast<Hidden*>(place) = Hidden(kmalloc(192, KM_SLEEP | KM_ZERO));
}
inline void release_lost(void* place) {
  kfree(static_cast<Hidden*>(place)->get());
}
inline void free_object(Hidden object) {
  in_another_task(release_lost, &object);
}
// Makes an object that no root leads to. Static memory or stacks may contain stale words with
// addresses of earlier objects, so the function tries several objects.
inline Hidden make_object() {
  Candidate candidates[8];
  for (Candidate& candidate : candidates) in_another_task(allocate_lost, &candidate.object);
  look_for(candidates);
  Hidden object;
  for (Candidate& candidate : candidates) {
    if (candidate.found && !object.get())
      object = candidate.object;
    else
      free_object(candidate.object);
  }
  ASSERT(object.get());
  return object;
}
