// The tracer's tables' needs of the kernel, on the host: pages that can run out, symbols, error
// strings.
#pragma once

#include <cstdint>
#include <string>

struct TraceWorld {
  // Pages of trace memory and blocks of the page arena that are out.
  static uint64_t pages_out();
  static uint64_t blocks_out();
  // From now on `percent` of the requests for trace pages, and for blocks, fail.
  static void fail_pages(unsigned percent);
  static void fail_blocks(unsigned percent);
  // From now on allocation number `nth` (from 0) fails, of pages and blocks counted together.
  static void fail_nth(uint64_t nth);
  // From now on `function` is called before each block is allocated: it plays another CPU. nullptr:
  // none.
  static void before_blocks(void (*function)());
  // Has allocation number `nth` failed?
  static bool nth_failed();
  // The last error string.
  static std::string error();
};
