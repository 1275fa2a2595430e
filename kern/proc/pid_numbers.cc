#include "proc/pid_numbers_impl.h"

#include <bit>

namespace {

// The bits of `number` and of all higher numbers in its word.
uint64_t from(uint32_t number) {
  return ~uint64_t{0} << number % 64;
}

}  // namespace

Result<uint32_t> PidNumbers::take() {
  const uint32_t first = last_ == kMaxPid ? 0 : last_ + 1;
  uint32_t word = first / 64;
  uint64_t free = ~used_[word] & from(first);
  for (uint32_t looked = 0; free == 0; looked++) {
    if (looked == kWords) return Errno::EAGAIN;
    word = (word + 1) % kWords;
    free = ~used_[word];
  }
  const uint32_t number = word * 64 + static_cast<uint32_t>(std::countr_zero(free));
  if (number <= last_) wraps_++;
  used_[word] |= uint64_t{1} << number % 64;
  users_[number] = 1;
  return last_ = number;
}

void PidNumbers::drop_user(uint32_t number) {
  if (--users_[number] == 0) used_[number / 64] &= ~(uint64_t{1} << number % 64);
}

uint32_t PidNumbers::next_used(uint32_t number) const {
  if (number >= kMaxPid) return 0;
  uint32_t word = (number + 1) / 64;
  uint64_t used = used_[word] & from(number + 1);
  while (used == 0 && ++word < kWords) used = used_[word];
  return used == 0 ? 0 : word * 64 + static_cast<uint32_t>(std::countr_zero(used));
}
