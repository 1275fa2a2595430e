// Shared by the files of alloctest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

struct Kind {
  const char* name;
  // Leaks `bytes` bytes in total. The function itself calls the allocator, so that its name is in
  // the first line of the leak's stack. Most kinds also allocate and free at least as many bytes.
  void (*leak)(std::size_t bytes);
};

// nullptr if no kind has this name.
const Kind* find_kind(std::string_view name);
extern const std::size_t kind_count;
extern const Kind kinds[];

// Returns `memory`, the result of an allocation. Ends the program if it is nullptr.
void* must(void* memory);

// The address of each leaked object is stored here, so that the compiler cannot remove allocations.
extern void* volatile forgotten;
// main() allocates this block before it calls the first kind.
extern void* old_memory;

uint64_t time_of_pair();

// pool.cc: an allocator that does not call the C library's allocator.
extern "C" {
void* pool_malloc(std::size_t size);
void* pool_realloc(void* old, std::size_t size);
void pool_free(void* memory);
}
