// Splits the pair that a record names into kernel stack and user stack. Caches the last pair, since
// the next record usually has the same one.
#pragma once

#include <cstdint>

#include "store/stack_table.h"

class LastPair {
 public:
  explicit LastPair(const StackTable& stacks) : stacks_(stacks) {}
  // The two stacks of `id`, the field `stack` of a record. Valid until the next call.
  const StackTable::Pair& split(StackId id) {
    if (id != id_) pair_ = stacks_.split(id_ = id);
    return pair_;
  }

 private:
  const StackTable& stacks_;
  StackId id_ = StackId::kNone;
  StackTable::Pair pair_ = {StackId::kNone, StackId::kNone};
};
