// Argument and environment strings for exec.
#include <algorithm>

#include "core/user_memory.h"
#include "lib/string.h"
#include "proc/process_impl.h"

namespace {
constexpr size_t kMaxArguments = 128 << 10;  // bytes: strings, their NULs, and pointers to them
constexpr size_t kFirstCapacity = 2048;
}  // namespace

Result<void> Arguments::reserve(size_t more) {
  if (size_ + more + (count_ + 1) * sizeof(uint64_t) > kMaxArguments) return Errno::E2BIG;
  if (size_ + more <= capacity_) return {};
  const size_t capacity = std::max({kFirstCapacity, capacity_ * 2, size_ + more});
  Charge charge;
  if (capacity > kPageSize) charge = TRY(charge_current(Charged::kBufferByte, capacity));
  char* const grown = static_cast<char*>(kmalloc_bytes(capacity, KM_SLEEP));
  if (!grown) return Errno::ENOMEM;
  if (data_) memcpy(grown, data_, size_);
  kfree(data_);
  data_ = grown;
  capacity_ = capacity;
  charge_ = std::move(charge);
  return {};
}

Result<void> Arguments::add(std::string_view text) {
  TRY(reserve(text.size() + 1));
  memcpy(data_ + size_, text.data(), text.size());
  data_[size_ + text.size()] = '\0';
  size_ += text.size() + 1;
  count_++;
  return {};
}

Result<uint32_t> Arguments::add_from_user(uint64_t array) {
  uint32_t added = 0;
  for (; array != 0; added++) {
    uint64_t pointer;
    TRY(copy_from_user(&pointer, array + added * sizeof(pointer), sizeof(pointer)));
    if (pointer == 0) break;
    for (size_t room = 64;;) {
      TRY(reserve(room));
      const size_t used = size_ + (count_ + 1) * sizeof(uint64_t);
      const size_t most = used < kMaxArguments ? kMaxArguments - used : 0;
      const size_t available = std::min(capacity_ - size_, most);
      Result<size_t> length = copy_string_from_user(data_ + size_, pointer, available);
      if (length) {
        size_ += *length + 1;
        break;
      }
      if (length.error() != Errno::ENAMETOOLONG) return length.error();
      if (available == most) return Errno::E2BIG;
      room = std::min(available * 2, most);
    }
    count_++;
  }
  return added;
}

Result<void> Arguments::replace_first(const std::string_view* texts, size_t count) {
  const size_t first = strlen(data_) + 1;
  size_t wanted = 0;
  for (size_t i = 0; i < count; i++) wanted += texts[i].size() + 1;
  TRY(reserve(wanted));
  memmove(data_ + wanted, data_ + first, size_ - first);
  size_ = size_ - first + wanted;
  char* to = data_;
  for (size_t i = 0; i < count; i++) {
    memcpy(to, texts[i].data(), texts[i].size());
    to += texts[i].size();
    *to++ = '\0';
  }
  count_ += count - 1;
  arguments += count - 1;
  return {};
}
