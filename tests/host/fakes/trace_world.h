// Fakes of the kernel services that the tracer's tables need: trace memory that a test can make run
// out, symbols, error strings.
#pragma once

#include <cstdint>
#include <string>

struct TraceWorld {
  // The number of allocated pages of trace memory, and the number of allocated blocks of the page
  // arena.
  static uint64_t pages_out();
  static uint64_t blocks_out();
  // fail_pages() makes `percent` percent of all further requests for trace pages fail, at random;
  // fail_blocks() does this for requests for blocks.
  static void fail_pages(unsigned percent);
  static void fail_blocks(unsigned percent);
  // Makes allocation number `nth` from now on (the first is 0) fail. Pages and blocks count
  // together.
  static void fail_nth(uint64_t nth);
  // Makes each further allocation of a block call function() first. So a test can do, at that
  // moment, what another CPU might do. nullptr: nothing is called.
  static void before_blocks(void (*function)());
  // Returns true if the allocation that fail_nth() chose has failed.
  static bool nth_failed();
  // Returns the last error string.
  static std::string error();
};
