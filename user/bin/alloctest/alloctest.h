// Shared by the files of alloctest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

struct Kind {
  const char* name;
  // Allocates, in this function's own frame, and leaks `bytes` in all; frees as much again and
  // more.
  void (*leak)(std::size_t bytes);
};

// nullptr if there is none.
const Kind* find_kind(std::string_view name);
extern const std::size_t kind_count;
extern const Kind kinds[];

// Ends the program if an allocation has failed.
void* must(void* memory);

// Leaked objects are written here, so that the compiler does not leave allocations out.
extern void* volatile forgotten;
// Allocated before the first kind.
extern void* old_memory;

uint64_t time_of_pair();

// An allocator that does not use the library's.
extern "C" {
void* pool_malloc(std::size_t size);
void* pool_realloc(void* old, std::size_t size);
void pool_free(void* memory);
}
