// The tables of stacks and of contexts, which all traces and probe sessions share. A table stores
// each stack or context once, and names it by a number. An object that stores such numbers is a
// user of the tables.
//
// Users are trace tables, probe sessions and open dumps. Their numbers name stacks and contexts;
// those of probe sessions also pairs of a kernel and a user stack (stack_table.h). While there is a
// user, the pool of trace memory is filled and a workspace for dumps is in reserve; when there is
// none, all memory is given back. The sweeper (sweeper.h) retains the numbers that users, tasks and
// interrupts have, and forgets the other entries. A number stays valid if all code obeys these
// rules:
//
//   - A hook runs with interrupts off. It may use any number that it has looked up, or that it has
//     taken from a user, from the current task or from the CPU's caches.
//   - Code that moves a number from one user to another retains the number. Otherwise the sweeper
//     could miss the number, by visiting the second user before the move and the first user
//     after the move. A hook does the move with interrupts off. Other code gives the number to the
//     second user before it retains the number, and takes it from the first user after that.
//   - Code that reads numbers from a user with interrupts on is in a NumbersReading until it no
//     longer uses the numbers, or until another user has copies of them
//     (TableUser::Holds::kCopies).
//
// Locks: while a user retains its numbers, the sweeper holds kTraceUsers, the lock of the lists of
// users. So the user cannot go away meanwhile. A user guards its data by its own locks, which
// rank below kTraceUsers, or changes its data only during a RetainingStopped.
#pragma once

#include <cstdint>

#include "core/sleep.h"
#include "intern/context_table.h"
#include "intern/stack_table.h"
#include "lib/list.h"
#include "lib/result.h"

extern StackTable trace_stacks;
extern ContextTable trace_contexts;

// Passed to users, so that they retain their numbers.
class Retained {
 public:
  Retained(StackTable& stacks, ContextTable& contexts) : stacks_(stacks), contexts_(contexts) {}
  void stack(StackId id) { stacks_.retain(id); }
  void context(ContextId id) { contexts_.retain(id); }

 private:
  StackTable& stacks_;
  ContextTable& contexts_;
};

class TableUser {
 public:
  // Hooks store numbers in users with originals: trace tables, probe sessions. A user with copies,
  // such as a dump, has numbers that were read from a user with originals. Copies do not change.
  enum class Holds : uint8_t { kOriginals, kCopies };

  TableUser(const TableUser&) = delete;
  TableUser& operator=(const TableUser&) = delete;

  // Retains each number that the user has. Numbers that the user gets during the call need not be
  // retained. The sweeper calls this function between trace_users_add() and trace_users_drop(),
  // with kTraceUsers held. May sleep, but not allocate.
  virtual void retain(Retained& retained) = 0;
  // Clears the numbers that the user caches for this CPU, and that hooks use without a look-up.
  // Called on each CPU in an interrupt, with probes off, while the sweeper holds kTraceUsers.
  // Bound: about 100 instructions.
  virtual void forget_recent() {}
  // True between trace_users_add() and trace_users_drop().
  bool is_user() const { return is_user_; }

 protected:
  constexpr explicit TableUser(Holds holds = Holds::kOriginals) : holds_(holds) {}
  ~TableUser() = default;

 private:
  friend class TableUsers;
  ListNode link_;
  uint32_t asked_ = 0;  // number of the last sweep that has called retain()
  bool is_user_ = false;
  const Holds holds_;
};

// Adds a user of the tables. The first user makes the tables ready. ENOMEM. May sleep.
// The caller holds no sleeping lock of a rank below kTraceSweep.
Result<void> trace_users_add(TableUser& user);
// Removes a user. The last user waits for the end of a sweep that is under way, and empties the
// tables. May sleep. The caller holds no sleeping lock of a rank below kTraceSweep.
void trace_users_drop(TableUser& user);

// A user without numbers, which keeps the tables ready while another user is being made.
class TablesOpen final : public TableUser {
 public:
  TablesOpen() = default;
  ~TablesOpen() {
    if (is_user()) trace_users_drop(*this);
  }
  // Adds a user. ENOMEM.
  Result<void> begin() { return trace_users_add(*this); }
  void retain(Retained&) override {}
};

// During a NumbersReading, the sweeper forgets no number that a user with originals has at the
// beginning of the reading or gets during the reading. The reader ensures that this user is not
// removed until the reading ends, because removing the last user empties the tables without waiting
// for readings. Any context but NMI; two locked instructions. A reading may sleep, but not wait for
// a sweep.
class NumbersReading {
 public:
  NumbersReading();
  ~NumbersReading();
  NumbersReading(const NumbersReading&) = delete;
  NumbersReading& operator=(const NumbersReading&) = delete;

 private:
  const uint32_t side_;
};

// While this object exists, the sweeper visits no user: the object holds the lock kTraceUsers.
// Nothing may be allocated meanwhile: an allocation may reap, and so end a trace, which takes the
// lock.
class RetainingStopped {
 public:
  RetainingStopped();
  ~RetainingStopped();
  RetainingStopped(const RetainingStopped&) = delete;
  RetainingStopped& operator=(const RetainingStopped&) = delete;
};

// --- For the sweeper.

// True if the tables have users. Any context.
bool trace_users_any();
// Calls retain() of each user with originals, or of each user with copies, once in a sweep. `sweep`
// is the number of the sweep. Users that are added during the sweep may be skipped.
void trace_users_retain(TableUser::Holds holds, uint32_t sweep, Retained& retained);
// On each CPU, clears the hints and calls forget_recent() of all users.
void trace_users_forget_recent();
// While this lock is held, the last user does not empty the tables.
extern Mutex trace_sweep_lock;
// Waits until each NumbersReading that began before this call is over. One caller at a time.
void trace_readings_wait();
