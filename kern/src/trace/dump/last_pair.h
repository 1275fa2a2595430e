// Splits the pairs of records into both stacks. Caches the last pair, since it usually repeats.
#pragma once

#include <cstdint>

#include "store/stack_table.h"

class LastPair {
 public:
  explicit LastPair(const StackTable& stacks) : stacks_(stacks) {}
  // The two stacks of a record's `stack`. Valid until the next call.
  const StackTable::Pair& split(uint32_t id) {
    if (id != id_) pair_ = stacks_.split(id_ = id);
    return pair_;
  }

 private:
  const StackTable& stacks_;
  uint32_t id_ = 0;
  StackTable::Pair pair_ = {0, 0};
};
