// The tables of stacks and of contexts, which all traces and probe sessions share. A table stores
// each stack or context once, and names it by a number. An object that stores such numbers is a
// holder.
//
// Holders are trace tables, probe sessions and open dumps. Their numbers name stacks and contexts;
// those of probe sessions also pairs of a kernel and a user stack (stack_table.h). While there is a
// holder, the pool of trace memory is filled and a workspace for dumps is in reserve; when there is
// none, all memory is given back. The sweeper (sweeper.h) marks the numbers that holders, tasks and
// interrupts hold, and forgets the entries that are not marked. A number stays valid if all code
// obeys these rules:
//
//   - A hook runs with interrupts off. It may use any number that it has looked up, or that it has
//     taken from a holder, from the current task or from the CPU's caches.
//   - Code that moves a number from one holder to another marks the number. Otherwise the sweeper
//     could miss the number, by visiting the second holder before the move and the first holder
//     after the move. A hook does the move with interrupts off. Other code gives the number to the
//     second holder before the mark, and takes it from the first holder after the mark.
//   - Code that reads numbers from a holder with interrupts on is in a StoreReading until it no
//     longer uses the numbers, or until another holder has copies of them
//     (StoreHolder::Holds::kCopies).
//
// Locks: while a holder marks its numbers, the sweeper holds kTraceStore, the lock of the lists of
// holders. So the holder cannot go away meanwhile. A holder guards its data by its own locks, which
// rank below kTraceStore, or changes its data only during a StoreMarkingStopped.
#pragma once

#include <cstdint>

#include "core/sleep.h"
#include "intern/context_table.h"
#include "intern/stack_table.h"
#include "lib/list.h"
#include "lib/result.h"

extern StackTable trace_stacks;
extern ContextTable trace_contexts;

// Passed to holders, so that they mark their numbers.
class StoreMark {
 public:
  StoreMark(StackTable& stacks, ContextTable& contexts) : stacks_(stacks), contexts_(contexts) {}
  void stack(StackId id) { stacks_.mark(id); }
  void context(ContextId id) { contexts_.mark(id); }

 private:
  StackTable& stacks_;
  ContextTable& contexts_;
};

class StoreHolder {
 public:
  // Hooks store numbers in holders of originals: trace tables, probe sessions. A holder of copies,
  // such as a dump, has numbers that were read from a holder of originals. Copies do not change.
  enum class Holds : uint8_t { kOriginals, kCopies };

  StoreHolder(const StoreHolder&) = delete;
  StoreHolder& operator=(const StoreHolder&) = delete;

  // Marks each number that the holder has. Numbers that the holder gets during the call need no
  // mark. The sweeper calls this function between trace_users_add() and trace_users_drop(), with
  // kTraceStore held. May sleep, but not allocate.
  virtual void mark(StoreMark& mark) = 0;
  // Clears the numbers that the holder caches for this CPU, and that hooks use without a look-up.
  // Called on each CPU in an interrupt, with probes off, while the sweeper holds kTraceStore.
  // Bound: about 100 instructions.
  virtual void forget_recent() {}
  // True between trace_users_add() and trace_users_drop().
  bool is_user() const { return is_user_; }

 protected:
  constexpr explicit StoreHolder(Holds holds = Holds::kOriginals) : holds_(holds) {}
  ~StoreHolder() = default;

 private:
  friend class StoreHolders;
  ListNode link_;
  uint32_t asked_ = 0;  // number of the last sweep that has called mark()
  bool is_user_ = false;
  const Holds holds_;
};

// Adds a holder as a user of the tables. The first user makes the tables ready. ENOMEM. May sleep.
// The caller holds no sleeping lock of a rank below kTraceSweep.
Result<void> trace_users_add(StoreHolder& holder);
// Removes a user. The last user waits for the end of a sweep that is under way, and empties the
// tables. May sleep. The caller holds no sleeping lock of a rank below kTraceSweep.
void trace_users_drop(StoreHolder& holder);

// A user without numbers, which keeps the tables ready while a holder is being made.
class StoreUse final : public StoreHolder {
 public:
  StoreUse() = default;
  ~StoreUse() {
    if (is_user()) trace_users_drop(*this);
  }
  // Adds a user. ENOMEM.
  Result<void> begin() { return trace_users_add(*this); }
  void mark(StoreMark&) override {}
};

// During a StoreReading, the sweeper forgets no number that a holder of originals has at the
// beginning of the reading or gets during the reading. The reader ensures that this holder stays a
// user until the reading ends, because removing the last user empties the tables without waiting
// for readings. Any context but NMI; two locked instructions. A reading may sleep, but not wait for
// a sweep.
class StoreReading {
 public:
  StoreReading();
  ~StoreReading();
  StoreReading(const StoreReading&) = delete;
  StoreReading& operator=(const StoreReading&) = delete;

 private:
  const uint32_t side_;
};

// While this object exists, the sweeper visits no holder: the object holds the lock kTraceStore.
// Nothing may be allocated meanwhile: an allocation may reap, and so end a trace, which takes the
// lock.
class StoreMarkingStopped {
 public:
  StoreMarkingStopped();
  ~StoreMarkingStopped();
  StoreMarkingStopped(const StoreMarkingStopped&) = delete;
  StoreMarkingStopped& operator=(const StoreMarkingStopped&) = delete;
};

// --- For the sweeper.

// True if the tables have users. Any context.
bool trace_users_any();
// Calls mark() of each holder of originals, or of each holder of copies, once in a sweep. `sweep`
// is the number of the sweep. Holders that are added during the sweep may be skipped.
void trace_users_mark(StoreHolder::Holds holds, uint32_t sweep, StoreMark& mark);
// On each CPU, clears the hints and calls forget_recent() of all holders.
void trace_users_forget_recent();
// While this lock is held, the last user does not empty the tables.
extern Mutex trace_sweep_lock;
// Waits until each StoreReading that began before this call is over. One caller at a time.
void trace_readings_wait();
