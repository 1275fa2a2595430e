// The sweeper: forgets stacks and contexts whose numbers nobody has any more, so that the tables of
// a permanently traced system do not fill up with stacks and contexts of ended processes and calls.
//
// It marks and sweeps, so that no hook counts references. A sweep is an epoch of the tables
// (intern_table.h). A look-up or mark stamps an entry with the epoch. The sweep forgets entries
// that do not have this stamp at its end.
//
//   1. The epoch begins. In a round, an interrupt on every CPU, each CPU clears the numbers that
//      hooks use without a look-up: its recent stacks and callers, and the recent stacks of probe
//      sessions. Hooks have interrupts off. So after this round each number in use was looked up in
//      this epoch, or has a holder.
//   2. Holders mark their numbers, in the order in which numbers move: first tasks and interrupts,
//      which cache contexts and callers; then records and sessions (the originals), where hooks
//      store the numbers; then dumps, which copy them. A number that moves before its holder is
//      visited is found at its new holder, or was marked during the move. Before dumps are visited,
//      the sweeper waits for the end of copies in progress (StoreReading).
//   3. Pairs and contexts without the stamp die; the living ones mark their stacks and programs.
//   4. A round. After it, each hook that is making a pair has looked up both stacks in this epoch.
//   5. Stacks and programs without the stamp die.
//   6. A round. After it, no hook is reading a chain in which it has met a dead entry. So the
//      memory of dead entries can now be reused.
//
// A sweep also gives back memory: a CPU that clears its recent stacks and callers frees some of the
// pages that it has not needed since the last sweep, and a trace frees the memory of its empty
// shards before it marks.
//
// Interrupts are off for slices of about 2,000 instructions. A sweep costs about 30 instructions
// for each record and each entry, and three interrupts on every CPU. It is due when the
// table of stacks or that of contexts has about twice the entries that the last sweep left in it
// (so the cost for each added entry is bounded), or about an eighth more when memory is short.
//
// A sweep holds trace_sweep_lock, which ranks below trace_control.
#pragma once

#include <cstdint>

#include "store/shared_tables.h"

// Sweeps now, if the tables have users. May sleep, until dumps that are being opened have copied
// their numbers. The caller holds neither trace_control nor a lock of a lower rank, and is not in a
// StoreReading.
void trace_sweep();
// True if a sweep is due. Called in each tick: any context, about 40 instructions, three if nothing
// is traced.
bool trace_sweep_wanted();

// Counts since boot.
struct TraceSweeps {
  uint64_t sweeps;
  uint64_t forgotten;  // stacks, pairs, contexts and programs that sweeps have forgotten
};
TraceSweeps trace_sweeps();

// Registers another function that marks numbers. Called at boot. Each sweep calls `mark` before it
// visits the holders. `mark` must mark each number that its owner has from the beginning of the
// sweep to this call.
void trace_register_marker(void (*mark)(StoreMark& mark));
