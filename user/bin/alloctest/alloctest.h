// Shared by the files of alloctest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

struct Kind {
  const char* name;
  // Leaks `bytes` in all, by allocations in this function's own frame. Most kinds also allocate and
  // free at least as many bytes.
  void (*leak)(std::size_t bytes);
};

// nullptr if no kind has this name.
const Kind* find_kind(std::string_view name);
extern const std::size_t kind_count;
extern const Kind kinds[];

// Returns `memory`, the result of an allocation. Ends the program if it is nullptr.
void* must(void* memory);

// Leaked objects are written here, so that the compiler does not leave allocations out.
extern void* volatile forgotten;
// A block that is allocated before the first kind runs.
extern void* old_memory;

uint64_t time_of_pair();

// pool.cc: an allocator that does not call the C library's allocator.
extern "C" {
void* pool_malloc(std::size_t size);
void* pool_realloc(void* old, std::size_t size);
void pool_free(void* memory);
}
