// The kernel's tracer walks a program's stack by its chain of frame pointers. These tests follow
// the chain from a function that the C++ library has called, through the library, to main. The
// unwinder, which reads the compiler's tables, must see the same callers.
#include <unwind.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <streambuf>
#include <vector>

#include "cxxtest.h"

namespace {

using Stack = std::vector<std::uintptr_t>;

[[gnu::noinline]] Stack by_frame_pointers() {
  struct Frame {
    const Frame* caller;
    std::uintptr_t return_address;
  };
  Stack stack;
  // The start file (crt0.S) sets the frame pointer to zero. This ends the chain.
  for (auto* frame = static_cast<const Frame*>(__builtin_frame_address(0)); frame != nullptr;
       frame = frame->caller) {
    if (stack.size() == 100 || (frame->caller != nullptr && frame->caller <= frame)) return {};
    stack.push_back(frame->return_address);
  }
  return stack;
}

[[gnu::noinline]] Stack by_tables() {
  Stack stack;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* stack) {
        static_cast<Stack*>(stack)->push_back(_Unwind_GetIP(context));
        return _URC_NO_REASON;
      },
      &stack);
  // The first address is in this function itself.
  if (!stack.empty()) stack.erase(stack.begin());
  return stack;
}

struct Seen {
  Stack frames, tables;
};
Seen seen;

[[gnu::noinline]] void look() {
  seen.frames = by_frame_pointers();
  seen.tables = by_tables();
}

// True if by_frame_pointers() and by_tables() have found the same callers of look().
bool alike() {
  return seen.frames.size() > 5 && seen.frames.size() == seen.tables.size() &&
         std::equal(seen.frames.begin() + 1, seen.frames.end(), seen.tables.begin() + 1);
}

bool contains(std::uintptr_t address) {
  return std::find(seen.frames.begin(), seen.frames.end(), address) != seen.frames.end();
}

[[gnu::noinline]] bool less_and_look(int a, int b) {
  if (seen.frames.empty()) look();
  return a < b;
}

// The library's compiled code calls overflow(): `<<` of ostream calls streambuf, and streambuf
// calls overflow().
struct Watching : std::streambuf {
  int overflow(int byte) override {
    look();
    return byte;
  }
};

[[gnu::noinline]] void sort_and_look() {
  std::vector<int> numbers{5, 3, 9, 1, 7, 2};
  seen = {};
  std::sort(numbers.begin(), numbers.end(), less_and_look);
  CHECK(alike());
  CHECK(contains(reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))));
}

[[gnu::noinline]] void print_and_look() {
  Watching buffer;
  std::ostream out(&buffer);
  seen = {};
  out << 3.5;
  CHECK(alike());
  CHECK(contains(reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))));
  CHECK(seen.frames.size() > 8);
}

}  // namespace

void test_frames() {
  sort_and_look();
  print_and_look();
}
