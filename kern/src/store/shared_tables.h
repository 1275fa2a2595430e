// The tables that all traces and sessions of probes share: stacks and contexts, each stored once.
// And the holders: objects that hold numbers of stacks and contexts.
//
// Everything that holds numbers of stacks, pairs or contexts is a holder: a trace table, a session,
// an open dump. While there is a holder, the pool of trace memory is filled and there is a reserve
// for dumps; when there is none, all memory is given back. The sweeper (sweeper.h) marks the
// numbers that holders, tasks and interrupts hold, and forgets entries that are not marked. So
// numbers stay valid under these rules:
//
//   A hook, with interrupts off, may use any number that it has looked up, or taken from a holder,
//   from the current task or from the CPU's caches.
//   Code that moves a number from one holder to another does so with interrupts off, and marks the
//   number: the sweeper may visit the first holder after the move and the second before it.
//   Code that reads numbers from a holder with interrupts on is in a StoreReading until it no
//   longer uses the numbers, or until they are in a holder of copies.
//
// Locks: the sweeper holds the lock of the lists of holders (kTraceStore) while a holder marks its
// numbers, so the holder cannot go away meanwhile. The holder's data is guarded by the holder's
// locks, which rank below kTraceStore, or changes only in a StoreMarkingStopped.
#pragma once

#include <cstdint>

#include "core/sleep.h"
#include "lib/list.h"
#include "lib/result.h"
#include "store/context_table.h"
#include "store/stack_table.h"

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
  // Copies are numbers that were read from a holder of originals; they do not change.
  enum class Holds : uint8_t { kOriginals, kCopies };

  StoreHolder(const StoreHolder&) = delete;
  StoreHolder& operator=(const StoreHolder&) = delete;

  // Marks each number that the holder has; numbers that it gets during the call need no mark. The
  // sweeper calls this between trace_users_add() and trace_users_drop(), with kTraceStore held. May
  // sleep, but not allocate.
  virtual void mark(StoreMark& mark) = 0;
  // Clears the numbers that the holder caches for this CPU and uses without a look-up. Called on
  // each CPU in an interrupt, while the sweeper holds kTraceStore; about 100 instructions.
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

// Adds a holder as a user of the tables. The first user makes the tables ready: ENOMEM. May sleep;
// no sleeping lock of a rank below kTraceSweep is held.
Result<void> trace_users_add(StoreHolder& holder);
// Removes a user. Removing the last user empties the tables, after the end of a sweep that is under
// way. May sleep; no sleeping lock of a rank below kTraceSweep is held.
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

// During a StoreReading, the sweeper keeps all numbers that a holder of originals has at the
// beginning of the reading or gets later. The holder that is read must stay a user until the
// reading ends: the tables are emptied without waiting for readings. Any context but NMI; two
// locked instructions. A reading may sleep, but not wait for a sweep.
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
// Calls mark() of each holder of originals or of copies, as `holds` says, that this sweep has not
// visited. `sweep` is the number of the sweep.
void trace_users_mark(StoreHolder::Holds holds, uint32_t sweep, StoreMark& mark);
// On each CPU, clears the recent stacks and callers and calls forget_recent() of all holders.
void trace_users_forget_recent();
// While this lock is held, the last user does not empty the tables.
extern Mutex trace_sweep_lock;
// Waits until each StoreReading that began before this call is over. One caller at a time.
void trace_readings_wait();
