// What StackTable and ContextTable have in common: words, each sequence kept once and named by a
// 32-bit number, until nobody refers to it any more.
#pragma once

#include <cstddef>
#include <cstdint>

class InternTable {
 public:
  // Who refers to entries of the same table: pairs to stacks, contexts to programs.
  enum class Pass { kReferring, kReferred };

  // How much there is. Exact when nobody adds.
  struct Fill {
    uint32_t entries;     // that can be found
    uint32_t survivors;   // of these, at the end of the last sweep; 0 before the first
    uint64_t bytes_held;  // of trace memory, all in all
    uint64_t bytes_free;  // of these, that new entries can have without another page
  };
  Fill fill() const;

  // A sweep, by one task at a time, which may sleep between the steps. A round is an interrupt on
  // every CPU, in which numbers are forgotten that are used without a look-up (recent stacks and
  // callers); since hooks have interrupts off, all that were under way are over after it.
  //   1. begin_epoch(), then a round.
  //   2. mark() of each number that a holder has. A number that was returned since the epoch began
  //      need not be marked.
  //   3. sweep(kReferring) until it is false, then a round.
  //   4. sweep(kReferred) until it is false, then a round.
  //   5. reuse() until it is false.
  // clear() may come at any point; then the sweep is over.
  void begin_epoch();
  // `id` is a number that the holder has had since before it was swept, or 0: it stays for this
  // epoch. Lock-free, any context. What a pair or a context refers to follows in step 3.
  void mark(uint32_t id);
  // Whether there is more to do. A slice turns interrupts off for some 2,000 instructions at most.
  bool sweep(Pass pass);
  // Places of what was swept can be used for others. Whether there is more to do. Interrupts stay
  // on; some 2,000 instructions.
  bool reuse();
};
