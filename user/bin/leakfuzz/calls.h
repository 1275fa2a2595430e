// The calls that programs make, and the kinds of their arguments: the system calls, and three calls
// that the fuzzer itself executes (again, touch, apart).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "abi/syscall.h"

// Kinds of arguments; generate.cc chooses the values of each kind.
//
//   f descriptor        p path               t path to bind at
//   r memory to read    w memory to write    s structure          v vector of strings
//   a address           n length             o offset             i boundary number
//   k open flags        m permissions        g signal             q process
//   u user              h whence, or a mode  c fcntl command      z terminal request
//   e options of wait   x protection         j flags of mmap
//   l number of polls   b flags of bind      d flags of pipe2
//   F directory of a relative path           E flags (AT_…) of a call with a path
//   R flags of unlink   M type and permissions
//   T time              I setting of a timer N action of a timer   A alternate stack
//   U limit             L target of a symbolic link            H thread to create
//   y thread            Q futex address      Z futex value
//   G repetitions
struct CallType {
  std::string_view name;
  uint32_t number;
  std::string_view kinds;  // kinds of the arguments, one letter for each
  unsigned weight;         // the call's frequency, relative to the sum of all weights
};

// Numbers of the calls that are no system calls.
//
// again N: the thread makes its calls again, up to N times: those from the program's start, or from
// the call after the thread_create that has made the thread, or from where `apart` has sent it. So
// threads and programs meet in many different orders.
// touch A: reads and writes a byte of memory.
// apart: a new thread or process skips the calls up to the next `again` and that one, so that it
// does something else than its maker. A thread is new until it comes to an `apart`.
inline constexpr uint32_t kAgain = ABI_SYS_COUNT + 1, kTouch = ABI_SYS_COUNT + 2,
                          kApart = ABI_SYS_COUNT + 3;

std::span<const CallType> call_types();
const CallType& call_type(uint32_t number);
const CallType* find_call(std::string_view name);  // nullptr if no call has this name
