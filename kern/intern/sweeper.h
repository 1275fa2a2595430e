// The sweeper forgets stacks and contexts whose numbers nobody has any more. Without it, the tables
// of a permanently traced system would fill up with stacks and contexts of processes that have
// ended.
//
// The sweeper uses mark and sweep, so that hooks need not count references. To mark is called to
// *retain* here, since the mark of a record is another thing. Each sweep begins a new
// epoch of the tables (intern/table_impl.h). To look up or retain an entry stamps it with the
// epoch. Then the sweep forgets the entries that do not have this epoch's stamp.
//
//   1. The epoch begins. A round follows, which is an interrupt on every CPU: each CPU clears the
//      numbers that hooks use without a look-up. These are its hints (stack_hints_impl.h), and the
//      recent stacks of probe sessions. Hooks run with interrupts off. So after the round each
//      number in use was looked up in this epoch, or has a user.
//   2. Users retain their numbers, in the order in which numbers move: first tasks and interrupts,
//      which cache contexts and callers; then trace tables and probe sessions, where hooks store
//      the numbers; then dumps, which copy the numbers. A number may leave a user before the
//      sweeper visits this user. Then the sweeper finds the number in the user that received
//      it, or the code that moved the number has retained it. Before the sweeper visits dumps, it
//      waits until all copies that are being made are complete (NumbersReading).
//   3. Pairs and contexts without the stamp die. The sweep retains the stacks and programs of all
//      other pairs and contexts.
//   4. Another round. After this round, each hit that is making a pair has looked up both stacks
//      in this epoch, so that step 5 keeps them.
//   5. Stacks and programs without the stamp die.
//   6. A last round. After this round, no hook is reading a chain in which it has met a dead entry.
//      So the memory of dead entries can now be reused.
//
// A sweep also gives back memory: a trace frees the memory of its empty shards before it retains
// numbers.
//
// Interrupts are off for slices of about 2,000 instructions. A sweep costs about 30 instructions
// for each entry, and three interrupts on every CPU. A record costs about 15 instructions, and 40
// more if its neighbour has another stack and context. A sweep is due when the table of stacks or
// the table of contexts has about twice the entries that it had after the last sweep. When memory
// is short, an increase by about an eighth makes a sweep due, and so does an entry that could not
// be added. After a sweep, the next one waits for 16 times as long as the sweep took. So sweeps
// take at most a seventeenth of a CPU's time.
//
// A sweep holds trace_sweep_lock, which ranks below trace_control.
#pragma once

#include <cstdint>

#include "intern/shared_tables.h"

// Sweeps now, if the tables have users. May sleep: waits until dumps that are being opened have
// copied their numbers. The caller holds neither trace_control nor a lock of a lower rank, and is
// not in a NumbersReading.
void trace_sweep();
// True if a sweep is due and the last one is long enough ago. Called in each tick, in any context.
// Costs about 40 instructions, or three if nothing is traced.
bool trace_sweep_wanted();

// Counts since boot.
struct TraceSweeps {
  uint64_t sweeps;
  uint64_t forgotten;  // stacks, pairs, contexts and programs that sweeps have forgotten
};
TraceSweeps trace_sweeps();

// Registers a function that retains the numbers of an owner that is no TableUser. Called at boot.
// Each sweep calls `retain` before it visits the users. `retain` must retain each number that its
// owner has had since the beginning of the sweep.
void trace_register_retainer(void (*retain)(Retained& retained));
