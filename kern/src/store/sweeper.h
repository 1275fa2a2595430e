// The sweeper: forgets stacks and contexts that nobody has a number of any more, so that a system
// that is always traced does not fill up with the processes and calls that come and go.
//
// Mark and sweep, so that no hook counts references. A sweep is an epoch of the tables
// (intern_table.h), in which a look-up stamps what it finds; what has no stamp at the end is
// forgotten.
//
//   1. The epoch begins. An interrupt on every CPU clears what hooks use without a look-up: recent
//   stacks and callers, and those of sessions. Hooks have interrupts off: when the round is over
//   each number that is in use was looked up in this epoch, or is held.
//   2. Who hands numbers on is asked first, then who gets them: tasks and interrupts remember
//   contexts and callers, which hooks put into records and sessions (the originals), which dumps
//   copy. A number that is handed on before its holder is asked is found where it went, or was
//   marked by whoever moved it. Copies being made are waited for (StoreReading).
//   3. Pairs and contexts without a stamp are dead; those that live mark their stacks and programs.
//   4. A round: no hook is under way that made a pair of stacks it had not looked up.
//   5. The other entries without a stamp are dead.
//   6. A round: no hook goes through a chain any more that has met a dead one. Now their places can
//   be used again.
//
// So that memory is given back as well as used again, a CPU that clears its recent stacks and
// callers frees some of the pages that it has not needed since the last sweep, and a trace that is
// asked to mark first frees what its empty shards have.
//
// Interrupts are off for slices of some 2,000 instructions. A sweep costs some 30 instructions for
// each record and each entry, and three interrupts on every CPU. It is wanted when there is twice
// as much as the last one left (so the cost for each entry that is added is bounded), or an eighth
// more where trace memory is short.
//
// Tests, trace_control, StoreReading and the last user: a sweep is under trace_sweep_lock, beneath
// trace_control.
#pragma once

#include <cstdint>

#include "store/shared_tables.h"

// A sweep, now, if there are users of the tables. May sleep, for as long as dumps are being opened;
// neither trace_control nor a lock of a lower rank is held, and the caller is not in a
// StoreReading.
void trace_sweep();
// Whether it is time for one. For each tick: any context, some 40 instructions, three if nothing is
// traced.
bool trace_sweep_wanted();

struct TraceSweeps {
  uint64_t sweeps;     // since boot
  uint64_t forgotten;  // stacks, pairs, contexts and programs
};
TraceSweeps trace_sweeps();

// Who else has numbers: `mark` is called in each sweep before the holders are asked, and must not
// miss what was there when the sweep began, as long as it is there. At boot.
void trace_register_marker(void (*mark)(StoreMark& mark));
