// Output directly to the console, for panics and NMIs.
#pragma once

#include <array>
#include <cstdint>

struct TrapFrame;

// Prints one line, without a time stamp; does not return if another CPU panics. Any context.
void console_print(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// Prints this CPU's state: task, the interrupted registers (`frame`, unless it is nullptr),
// backtrace through all traps on this stack (from `frame`, otherwise from `frame_pointer`), locks
// held. Interrupts off. `backtrace` is scratch memory. The caller provides it because a panic on
// another CPU may run this function at the same time.
using Backtrace = std::array<uint64_t, 512>;
void console_print_cpu(Backtrace& backtrace, const TrapFrame* frame, uint64_t frame_pointer);
