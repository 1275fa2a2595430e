// Output directly to the console, for panics and NMIs.
#pragma once

#include <array>
#include <cstdint>

struct TrapFrame;

// Prints one line, without a time stamp. Halts this CPU if another CPU panics. Any context.
void console_print(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// Prints this CPU's state: the task, the interrupted registers, a backtrace through all traps on
// this stack, and the locks held. The interrupted registers are in `frame`. If `frame` is nullptr,
// prints no registers and starts the backtrace at `frame_pointer`. Interrupts off. `backtrace` is
// scratch memory. The caller provides it because a panic on another CPU may run this function at
// the same time.
using Backtrace = std::array<uint64_t, 512>;
void console_print_cpu(Backtrace& backtrace, const TrapFrame* frame, uint64_t frame_pointer);
