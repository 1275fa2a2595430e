// The tables that all traces and sessions of probes share: stacks and contexts, each kept once; and
// the holders of their numbers.
//
// Everything that keeps numbers of stacks, pairs or contexts is a holder: a trace table, a session,
// an open dump. While there is a holder, the pool of trace memory is filled and there is a reserve
// for dumps; without any, all memory is given back. The sweeper (sweeper.h) has each holder, task
// and interrupt mark its numbers, and forgets entries that nobody has marked. So numbers stay valid
// under these rules:
//
//   A hook, with interrupts off, may use any number that it has looked up, or taken from a holder,
//   from the current task or from the CPU's caches.
//   Code that moves a number from one holder to another does so with interrupts off, and marks the
//   number: the sweeper may visit one holder too late and the other too early.
//   Code that reads numbers from a holder with interrupts on is in a StoreReading until it has used
//   them, or keeps them in a holder of copies.
//
// Locks: the sweeper holds the lock of the users (kTraceStore) while a holder marks its numbers, so
// the holder does not go away meanwhile. The holder's data is guarded by its own locks, below
// kTraceStore, or changes in a StoreMarkingStopped.
#pragma once

#include <cstdint>

#include "core/sleep.h"
#include "lib/list.h"
#include "lib/result.h"
#include "store/context_table.h"
#include "store/stack_table.h"

extern StackTable trace_stacks;
extern ContextTable trace_contexts;

// Passed to holders, which mark their numbers with it.
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
  // Copies are numbers taken from originals; they do not change.
  enum class Holds : uint8_t { kOriginals, kCopies };

  StoreHolder(const StoreHolder&) = delete;
  StoreHolder& operator=(const StoreHolder&) = delete;

  // Marks each number that it holds; numbers that it gets meanwhile need no mark. Called by the
  // sweeper between trace_users_add() and trace_users_drop(), with kTraceStore held. May sleep, but
  // not allocate.
  virtual void mark(StoreMark& mark) = 0;
  // Clears this CPU's cached numbers, which are used without a look-up. Called on each CPU in an
  // interrupt, with kTraceStore held; some 100 instructions.
  virtual void forget_recent() {}
  // True between trace_users_add() and trace_users_drop().
  bool is_user() const { return is_user_; }

 protected:
  constexpr explicit StoreHolder(Holds holds = Holds::kOriginals) : holds_(holds) {}
  ~StoreHolder() = default;

 private:
  friend class StoreHolders;
  ListNode link_;
  uint32_t asked_ = 0;  // the last sweep that has called mark()
  bool is_user_ = false;
  const Holds holds_;
};

// The first user makes the tables ready, and may fail: ENOMEM. The last one empties them, after a
// sweep under way. May sleep; no sleeping lock of a rank below kTraceSweep is held.
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

// During a StoreReading no number is forgotten that an original holds at its beginning or gets
// later. The holder that is read must stay a user, so that the last user does not wait for the
// reading. Any context but NMI; two locked instructions. May sleep meanwhile, but not wait for a
// sweep.
class StoreReading {
 public:
  StoreReading();
  ~StoreReading();
  StoreReading(const StoreReading&) = delete;
  StoreReading& operator=(const StoreReading&) = delete;

 private:
  const uint32_t side_;
};

// Keeps the sweeper from visiting any holder. For a few instructions, without allocation.
class StoreMarkingStopped {
 public:
  StoreMarkingStopped();
  ~StoreMarkingStopped();
  StoreMarkingStopped(const StoreMarkingStopped&) = delete;
  StoreMarkingStopped& operator=(const StoreMarkingStopped&) = delete;
};

// --- For the sweeper.

// True if there are users. Any context.
bool trace_users_any();
// Calls mark() of all holders of one kind that this sweep has not visited, one after the other.
void trace_users_mark(StoreHolder::Holds holds, uint32_t sweep, StoreMark& mark);
// Calls forget_recent() of all holders, on each CPU.
void trace_users_forget_recent();
// Keeps the last user from emptying the tables.
extern Mutex trace_sweep_lock;
// Waits until every StoreReading that had begun is over. One caller at a time.
void trace_readings_wait();
