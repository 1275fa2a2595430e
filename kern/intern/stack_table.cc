#include "intern/stack_table.h"

#include <algorithm>

uint64_t StackTable::View::operator[](size_t index) const {
  if (kind() == StackKind::kKernel) return unpacked(entry_->data[index]);
  return entry_->data[2 * index] | uint64_t{entry_->data[2 * index + 1]} << 32;
}

// User frames are stored unpacked, kernel frames packed.
StackId StackTable::intern(StackKind kind, const uint64_t* frames, size_t count) {
  count = std::min(count, kMaxFrames);
  return kind == StackKind::kUser ? intern_user(frames, count) : intern_kernel(frames, count);
}

// stack: a frame of up to 640 bytes, because the frames of a whole stack are on it. This code runs
// with interrupts off, in hooks, where no memory can be allocated.
StackId StackTable::intern_user(const uint64_t* frames, size_t count) {
  uint64_t words[kMaxFrames + 1];
  uint64_t hash = 0;
  for (size_t i = 0; i < count; i++) hash = hash_with(hash, words[i] = frames[i]);
  words[count] = 0;
  const uint64_t key = key_of(Kind::kUserStack, 2 * (count + 1), hash ^ hash >> 32);
  return StackId{find_or_add(key, reinterpret_cast<const uint32_t*>(words)).id};
}

StackId StackTable::intern_kernel(const uint64_t* frames, size_t count) {
  uint32_t packed[kMaxFrames + 2];
  uint64_t hash = 0;
  for (size_t i = 0; i < count; i++) {
    packed[i] = packs(frames[i]) ? static_cast<uint32_t>(frames[i]) : UINT32_MAX;
    hash = hash_with(hash, packed[i]);
  }
  packed[count] = packed[count + 1] = 0;
  const View stored = intern_packed({packed, static_cast<uint32_t>(count), hash});
  return stored ? stored.id() : StackId::kNone;
}

StackId StackTable::intern_pair(Pair pair) {
  const uint32_t data[] = {number_of(pair.stack), number_of(pair.user_stack)};
  return StackId{find_or_add(key_of(pair), data).id};
}
