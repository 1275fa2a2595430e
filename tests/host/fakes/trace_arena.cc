#include "trace_arena.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "arena.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/symbols.h"
#include "slab.h"

namespace {

char trace_arena_tag;
std::atomic<uint64_t> pages{0}, blocks{0}, count{0}, failing{UINT64_MAX};

arena* trace_arena_made() {
  return reinterpret_cast<arena*>(&trace_arena_tag);
}
std::atomic<uint64_t>& out(arena* from) {
  return from == trace_arena_made() ? pages : blocks;
}

}  // namespace

uint64_t trace_arena::pages_out() {
  return pages;
}
uint64_t trace_arena::blocks_out() {
  return blocks;
}
void trace_arena::fail_nth(uint64_t nth) {
  count = 0;
  failing = nth;
}
uint64_t trace_arena::allocations() {
  return count;
}

arena* base_arena = nullptr;

arena* arena_create(const char*, uintptr_t, size_t, size_t, arena_import, arena_export, arena*,
                    size_t, int) {
  return trace_arena_made();
}

void* arena_alloc(arena* from, size_t size, int) {
  if (count++ == failing) return nullptr;
  out(from)++;
  const size_t rounded = (size + 4095) / 4096 * 4096;
  void* const memory = aligned_alloc(4096, rounded);
  // As in the kernel, memory is not zeroed.
  memset(memory, 0xa5, rounded);
  return memory;
}

void arena_free(arena* to, void* address, size_t) {
  out(to)--;
  free(address);
}

void* arena_span_alloc(arena* from, size_t size, int flags) {
  return arena_alloc(from, size, flags);
}
void arena_span_free(arena* to, void* address, size_t size) {
  arena_free(to, address, size);
}
void arena_forward(arena*) {}
int arena_prepare(arena*) {
  return 0;
}
int symbol_format(char* buffer, size_t size, uint64_t return_address) {
  return snprintf(buffer, size, "f%llx", static_cast<unsigned long long>(return_address & 0xffff));
}

int kmem_inject(enum kmem_inject_site, const void*, size_t, int) {
  return 0;
}

Errno fail(Errno error, const char*, ...) {
  return error;
}

void panic(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  vfprintf(stderr, pattern, arguments);
  va_end(arguments);
  abort();
}
