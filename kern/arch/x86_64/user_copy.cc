// Implements user_memory.h with the assembly of user_copy.S.
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/paging.h"
#include "core/user_memory.h"
#include "lib/sanitize.h"

extern "C" int user_copy(void* to, const void* from, size_t size);
extern "C" int user_load_word(uint64_t from, uint64_t* to);
extern "C" long user_copy_string(char* to, const char* from, size_t size);

namespace {

bool in_user_space(uint64_t address, size_t size) {
  return address < kUserEnd && size <= kUserEnd - address;
}

}  // namespace

Result<void> copy_from_user(void* to, uint64_t from, size_t size) {
  if (size == 0) return {};
  sanitize_write(to, size);
  if (!in_user_space(from, size) || user_copy(to, reinterpret_cast<const void*>(from), size) != 0)
    return Errno::EFAULT;
  return {};
}

Result<void> copy_to_user(uint64_t to, const void* from, size_t size) {
  if (size == 0) return {};
  sanitize_read(from, size);
  if (!in_user_space(to, size) || user_copy(reinterpret_cast<void*>(to), from, size) != 0)
    return Errno::EFAULT;
  return {};
}

Result<size_t> copy_string_from_user(char* to, uint64_t from, size_t size) {
  if (from >= kUserEnd) return Errno::EFAULT;
  sanitize_write(to, size);
  const size_t reach = size < kUserEnd - from ? size : kUserEnd - from;
  const long length = user_copy_string(to, reinterpret_cast<const char*>(from), reach);
  if (length < 0) return Errno::EFAULT;
  if (static_cast<size_t>(length) == size) return Errno::ENAMETOOLONG;
  if (static_cast<size_t>(length) == reach) return Errno::EFAULT;
  return static_cast<size_t>(length);
}

bool load_user_now(void* to, uint64_t from, size_t size) {
  const InterruptsOff off;  // trap.cc then does not resolve a fault, and the copy fails
  return in_user_space(from, size) && user_copy(to, reinterpret_cast<const void*>(from), size) == 0;
}

bool load_user_word(uint64_t from, uint64_t* to) {
  return in_user_space(from, sizeof(*to)) && user_load_word(from, to) == 0;
}
