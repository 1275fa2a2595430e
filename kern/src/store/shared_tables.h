// The tables that all traces and sessions of probes share: stacks and contexts, each kept once; and
// who holds numbers of them.
//
// Whatever keeps a number of a stack, a pair or a context is a holder: a trace table, a session, an
// open dump. As long as there is one, the pool of trace memory is filled and
// there is a reserve for dumps; without any, all memory is given back. What no holder, no task and
// no interrupt has a number of is forgotten by the sweeper (sweeper.h), which asks each of them. So
// numbers keep their meaning under these rules:
//
//   A hook, with interrupts off, may use any number that it has looked up, or taken from a holder,
//   from the current task or from what the CPU remembers.
//   Who moves a number from one holder to another has interrupts off meanwhile, and marks it: the
//   sweeper may have asked one of them too late and the other too early.
//   Whoever reads numbers out of a holder with interrupts on is in a StoreReading until they are
//   used, or in a holder of copies.
//
// Locks: that of the users (kTraceStore) is held while one holder is asked, so a holder does not go
// away under the sweeper; what it has beside is kept by its own locks, below kTraceStore, or
// changed in a StoreMarkingStopped.
#pragma once

#include <cstdint>

#include "core/sleep.h"
#include "lib/list.h"
#include "lib/result.h"
#include "store/context_table.h"
#include "store/stack_table.h"

extern StackTable trace_stacks;
extern ContextTable trace_contexts;

// What holders tell the sweeper: what stays.
class StoreMark {
 public:
  StoreMark(StackTable& stacks, ContextTable& contexts) : stacks_(stacks), contexts_(contexts) {}
  // The number of a stack or a pair, or 0.
  void stack(uint32_t id) { stacks_.mark(id); }
  void context(uint32_t id) { contexts_.mark(id); }

 private:
  StackTable& stacks_;
  ContextTable& contexts_;
};

class StoreHolder {
 public:
  // Copies are what was taken out of originals; they do not change.
  enum class Holds : uint8_t { kOriginals, kCopies };

  StoreHolder(const StoreHolder&) = delete;
  StoreHolder& operator=(const StoreHolder&) = delete;

  // Marks each number that it holds. What it comes to hold meanwhile need not be. By the sweeper,
  // which may sleep, but allocates nothing; between trace_users_add() and trace_users_drop(), with
  // kTraceStore held.
  virtual void mark(StoreMark& mark) = 0;
  // What this CPU remembers of numbers, to use them without a look-up, it remembers no more. On
  // each CPU in an interrupt, some 100 instructions; with kTraceStore held.
  virtual void forget_recent() {}
  // Whether it is one of the users, as its owner has last made it.
  bool is_user() const { return is_user_; }

 protected:
  constexpr explicit StoreHolder(Holds holds = Holds::kOriginals) : holds_(holds) {}
  ~StoreHolder() = default;

 private:
  friend class StoreHolders;
  ListNode link_;
  uint32_t asked_ = 0;  // the sweep that has asked it last
  bool is_user_ = false;
  const Holds holds_;
};

// The first makes the tables ready, and may fail: ENOMEM. The last to go empties them, when a sweep
// that is under way is over. May sleep; with no sleeping lock of a rank below kTraceSweep held.
Result<void> trace_users_add(StoreHolder& holder);
void trace_users_drop(StoreHolder& holder);

// Keeps the tables ready while a holder is made.
class StoreUse final : public StoreHolder {
 public:
  StoreUse() = default;
  ~StoreUse() {
    if (is_user()) trace_users_drop(*this);
  }
  // ENOMEM.
  Result<void> begin() { return trace_users_add(*this); }
  void mark(StoreMark&) override {}
};

// While there is one, nothing is forgotten that an original holds when it begins, or comes to hold.
// Only while what is read is a holder, so that the last user does not wait for it. Any context but
// NMI; two locked instructions. What is done in it may sleep, but not wait for a sweep.
class StoreReading {
 public:
  StoreReading();
  ~StoreReading();
  StoreReading(const StoreReading&) = delete;
  StoreReading& operator=(const StoreReading&) = delete;

 private:
  const uint32_t side_;
};

// Keeps the sweeper from asking any holder. For a few instructions: nothing is allocated in it.
class StoreMarkingStopped {
 public:
  StoreMarkingStopped();
  ~StoreMarkingStopped();
  StoreMarkingStopped(const StoreMarkingStopped&) = delete;
  StoreMarkingStopped& operator=(const StoreMarkingStopped&) = delete;
};

// --- For the sweeper.

// Whether there are users. Any context.
bool trace_users_any();
// Asks those of one kind that were not asked in this sweep, one after the other.
void trace_users_mark(StoreHolder::Holds holds, uint32_t sweep, StoreMark& mark);
// Calls forget_recent() of all of them, on each CPU.
void trace_users_forget_recent();
// Keeps the last user from emptying the tables.
extern Mutex trace_sweep_lock;
// Waits until every StoreReading that had begun is over. By one at a time.
void trace_readings_wait();
