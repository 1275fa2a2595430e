// An allocator that is part of the program. It cuts an array into pieces, with a size before each
// piece. It reuses free pieces, but never joins them.
#include <cstdint>
#include <cstring>

#include "alloctest.h"

namespace {

constexpr std::size_t kPool = 1 << 20, kHeader = 16;
alignas(16) char pool[kPool];
std::size_t used;

struct Free {
  Free* next;
};
Free* free_pieces;

std::size_t& size_of(void* memory) {
  return *reinterpret_cast<std::size_t*>(static_cast<char*>(memory) - kHeader);
}

}  // namespace

__attribute__((noinline)) void* pool_malloc(std::size_t size) {
  const std::size_t rounded = (size + 15) / 16 * 16;
  for (Free** link = &free_pieces; *link != nullptr; link = &(*link)->next) {
    Free* const piece = *link;
    if (size_of(piece) < rounded) continue;
    *link = piece->next;
    return piece;
  }
  if (rounded + kHeader > kPool - used) return nullptr;
  void* const memory = pool + used + kHeader;
  used += rounded + kHeader;
  size_of(memory) = rounded;
  return memory;
}

__attribute__((noinline)) void* pool_realloc(void* old, std::size_t size) {
  if (old != nullptr && size_of(old) >= size) return old;
  void* const memory = pool_malloc(size);
  if (memory == nullptr || old == nullptr) return memory;
  std::memcpy(memory, old, size_of(old));
  pool_free(old);
  return memory;
}

__attribute__((noinline)) void pool_free(void* memory) {
  Free* const piece = static_cast<Free*>(memory);
  piece->next = free_pieces;
  free_pieces = piece;
}
