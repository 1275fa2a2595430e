#include "intern/stack_table.h"

#include <algorithm>

size_t StackTable::View::size() const {
  return kind() == StackKind::kKernel ? entry_->words() : entry_->words() / 2;
}

uint64_t StackTable::View::operator[](size_t index) const {
  if (kind() == StackKind::kKernel) return unpacked(entry_->data[index]);
  return entry_->data[2 * index] | uint64_t{entry_->data[2 * index + 1]} << 32;
}

StackId StackTable::intern(StackKind kind, const uint64_t* frames, size_t count) {
  bool known;
  return intern(kind, frames, count, &known);
}

// User frames are stored unpacked, kernel frames packed.
StackId StackTable::intern(StackKind kind, const uint64_t* frames, size_t count, bool* known) {
  count = std::min(count, kMaxFrames);
  uint64_t sum = 0;
  Interned interned;
  if (kind == StackKind::kUser) {
    for (size_t i = 0; i < count; i++) sum += weight(frames[i], i);
    interned = find_or_add(key_of(Kind::kUserStack, 2 * count, mixed(sum)),
                           reinterpret_cast<const uint32_t*>(frames));
  } else {
    uint32_t packed[kMaxFrames];
    for (size_t i = 0; i < count; i++) {
      packed[i] = packs(frames[i]) ? static_cast<uint32_t>(frames[i]) : UINT32_MAX;
      sum += weight(unpacked(packed[i]), i);
    }
    interned = find_or_add(key_of(Kind::kKernelStack, count, mixed(sum)), packed);
  }
  *known = interned.known;
  return StackId{interned.id};
}

StackId StackTable::intern_packed(std::span<const uint32_t> frames, uint64_t sum) {
  return StackId{
      find_or_add(key_of(Kind::kKernelStack, frames.size(), mixed(sum)), frames.data()).id};
}

StackId StackTable::intern_pair(Pair pair) {
  const uint32_t data[] = {number_of(pair.stack), number_of(pair.user_stack)};
  return StackId{find_or_add(key_of(pair), data).id};
}
