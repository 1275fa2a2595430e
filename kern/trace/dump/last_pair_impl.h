// Finds the kernel stack and the user stack of a record, which names both stacks by one number.
// Caches the last result, because the next record usually has the same number.
#pragma once

#include <cstdint>

#include "intern/stack_table.h"

class LastPair {
 public:
  explicit LastPair(const StackTable& stacks) : stacks_(stacks) {}
  // Returns the two stacks of `id`, which is the field `stack` of a record. The reference is valid
  // until the next call.
  const StackTable::Pair& split(StackId id) {
    if (id != id_) pair_ = stacks_.split(id_ = id);
    return pair_;
  }

 private:
  const StackTable& stacks_;
  StackId id_ = StackId::kNone;
  StackTable::Pair pair_ = {StackId::kNone, StackId::kNone};
};
