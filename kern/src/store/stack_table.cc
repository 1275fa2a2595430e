#include "store/stack_table.h"

#include <algorithm>

uint64_t StackTable::pack(StackKind kind, const uint64_t* frames, size_t count, uint32_t* data) {
  uint64_t sum = 0;
  if (kind == StackKind::kKernel) {
    for (size_t i = 0; i < count; i++) {
      data[i] = packs(frames[i]) ? static_cast<uint32_t>(frames[i]) : UINT32_MAX;
      sum += weight(unpacked(data[i]), i);
    }
    return key_of(kind_of(kind), count, mixed(sum));
  }
  for (size_t i = 0; i < count; i++) {
    data[2 * i] = static_cast<uint32_t>(frames[i]);
    data[2 * i + 1] = static_cast<uint32_t>(frames[i] >> 32);
    sum += weight(frames[i], i);
  }
  return key_of(kind_of(kind), 2 * count, mixed(sum));
}

StackKind StackTable::View::kind() const {
  return static_cast<StackKind>(entry_->kind());
}

size_t StackTable::View::size() const {
  return kind() == StackKind::kKernel ? entry_->words() : entry_->words() / 2;
}

uint64_t StackTable::View::operator[](size_t index) const {
  if (kind() == StackKind::kKernel) return unpacked(entry_->data[index]);
  return entry_->data[2 * index] | uint64_t{entry_->data[2 * index + 1]} << 32;
}

uint32_t StackTable::intern(StackKind kind, const uint64_t* frames, size_t count) {
  bool known;
  return intern(kind, frames, count, &known);
}

uint32_t StackTable::intern(StackKind kind, const uint64_t* frames, size_t count, bool* known) {
  uint32_t data[kMaxWords];
  const uint64_t key = pack(kind, frames, std::min(count, kMaxFrames), data);
  return find_or_add(key, data, known);
}

uint32_t StackTable::intern_packed(std::span<const uint32_t> frames, uint64_t sum) {
  bool known;
  return find_or_add(key_of(Kind::kKernelStack, frames.size(), mixed(sum)), frames.data(), &known);
}

uint32_t StackTable::intern_pair(Pair pair) {
  const uint32_t data[] = {pair.stack, pair.user_stack};
  bool known;
  return find_or_add(key_of(pair), data, &known);
}
