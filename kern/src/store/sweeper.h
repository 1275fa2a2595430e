// The sweeper: forgets stacks and contexts whose numbers nobody has any more, so that a permanently
// traced system does not fill up with those of ended processes and calls.
//
// It marks and sweeps, so that no hook counts references. A sweep is an epoch of the tables
// (intern_table.h). A look-up or mark stamps an entry with the epoch; entries without the stamp at
// the end are forgotten.
//
//   1. The epoch begins. An interrupt on every CPU clears the numbers that hooks use without a
//      look-up: recent stacks and callers, and those of sessions. Hooks have interrupts off. So
//      after this round each number in use was looked up in this epoch, or has a holder.
//   2. Holders mark their numbers, in the order in which numbers move: first tasks and interrupts,
//      which cache contexts and callers; then records and sessions (the originals), where hooks
//      store them; then dumps, which copy them. A number that moves before its holder is visited is
//      found at its new holder, or was marked during the move. Copies in progress are waited for
//      (StoreReading).
//   3. Pairs and contexts without the stamp die; the living ones mark their stacks and programs.
//   4. A round. After it, no hook is under way that makes a pair of stacks that it had not looked
//   up.
//   5. The other entries without the stamp die.
//   6. A round. After it, no hook is reading a chain in which it has met a dead entry. The places
//   of
//      dead entries can now be reused.
//
// A sweep also gives back memory: a CPU that clears its recent stacks and callers frees some of the
// pages that it has not needed since the last sweep, and a trace frees the memory of its empty
// shards before it marks.
//
// Interrupts are off for slices of some 2,000 instructions. A sweep costs some 30 instructions for
// each record and each entry, and three interrupts on every CPU. It is due when the tables have
// twice the entries that the last sweep left (so the cost for each added entry is bounded), or an
// eighth more when trace memory is short.
//
// A sweep holds trace_sweep_lock, which ranks below trace_control.
#pragma once

#include <cstdint>

#include "store/shared_tables.h"

// Sweeps now, if there are users of the tables. May sleep, as long as dumps are being opened; the
// caller holds neither trace_control nor a lock of a lower rank, and is not in a StoreReading.
void trace_sweep();
// True if a sweep is due. For each tick: any context, some 40 instructions, three if nothing is
// traced.
bool trace_sweep_wanted();

struct TraceSweeps {
  uint64_t sweeps;     // since boot
  uint64_t forgotten;  // stacks, pairs, contexts and programs
};
TraceSweeps trace_sweeps();

// Registers another source of marks, at boot: `mark` is called in each sweep before the holders are
// visited. It must mark each number that exists from the beginning of the sweep to this call.
void trace_register_marker(void (*mark)(StoreMark& mark));
