#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "core/errstr.h"
#include "core/log.h"
#include "core/symbols.h"
#include "intern/trace_memory.h"
#include "trace_world.h"

namespace {

std::atomic<uint64_t> pages{0}, blocks{0};
std::atomic<unsigned> page_failures{0}, block_failures{0};
std::atomic<uint64_t> count{0}, failing{UINT64_MAX};
std::atomic<void (*)()> before_block{nullptr};
char error_text[ABI_ERRSTR_MAX];

bool fails(unsigned percent) {
  if (count++ == failing) return true;
  thread_local std::minstd_rand random(1);
  return random() % 100 < percent;
}

void* page_sized(size_t size) {
  return aligned_alloc(4096, (size + 4095) / 4096 * 4096);
}

}  // namespace

uint64_t TraceWorld::pages_out() {
  return pages;
}
uint64_t TraceWorld::blocks_out() {
  return blocks;
}
void TraceWorld::fail_pages(unsigned percent) {
  page_failures = percent;
}
void TraceWorld::fail_blocks(unsigned percent) {
  block_failures = percent;
}
void TraceWorld::before_blocks(void (*function)()) {
  before_block = function;
}
void TraceWorld::fail_nth(uint64_t nth) {
  count = 0;
  failing = nth;
}
bool TraceWorld::nth_failed() {
  return count > failing;
}
std::string TraceWorld::error() {
  return error_text;
}

void trace_memory_prepare() {}

void* trace_page_take() {
  if (fails(page_failures)) return nullptr;
  pages++;
  void* page = page_sized(4096);
  // As in the kernel, a page is not zeroed.
  __builtin_memset(page, 0xa5, 4096);
  return page;
}

void trace_page_free(void* page) {
  pages--;
  free(page);
}

void trace_page_return(void* page) {
  trace_page_free(page);
}

void* trace_block_take(size_t size) {
  if (fails(page_failures)) return nullptr;
  pages += size / 4096;
  void* block = page_sized(size);
  __builtin_memset(block, 0xa5, size);
  return block;
}

void trace_block_free(void* block, size_t size) {
  pages -= size / 4096;
  free(block);
}

void* trace_copy_alloc(size_t size) {
  if (auto* function = before_block.load()) function();
  if (fails(block_failures)) return nullptr;
  blocks++;
  return page_sized(size);
}

void trace_copy_free(void* address, size_t) {
  blocks--;
  free(address);
}

int symbol_format(char* buffer, size_t size, uint64_t return_address) {
  return snprintf(buffer, size, "f%llx+0x1 [kernel]",
                  static_cast<unsigned long long>(return_address & 0xfff));
}

Errno fail(Errno error, const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(error_text, sizeof(error_text), pattern, arguments);
  va_end(arguments);
  return error;
}

void panic(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  vfprintf(stderr, pattern, arguments);
  va_end(arguments);
  abort();
}
