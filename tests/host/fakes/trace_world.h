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
  // Makes one further allocation fail, of a page or of a block: the next one if `nth` is 0, the one
  // after it if `nth` is 1, and so on.
  static void fail_nth(uint64_t nth);
  // Makes each further allocation of a block call function() first. function() can do what another
  // CPU might do at that moment. nullptr ends the calls.
  static void before_blocks(void (*function)());
  // Returns true if the allocation that fail_nth() chose has failed.
  static bool nth_failed();
  // Returns the last error string.
  static std::string error();
};
