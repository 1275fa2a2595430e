// Straight to the console, for accounts of what has gone wrong: panics and NMIs.
#pragma once

#include <array>
#include <cstdint>

struct TrapFrame;

// One line, without a time stamp; does not return if another CPU panics. Any context.
void console_print(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// What this CPU does: task, registers of what was interrupted (`frame`, if it is not nullptr),
// backtrace through all traps on this stack (from `frame`, or else from `frame_pointer`), locks
// held. Interrupts off. `backtrace` is for its use; a panic may begin on another CPU meanwhile, so
// that has one of its own.
using Backtrace = std::array<uint64_t, 512>;
void console_print_cpu(Backtrace& backtrace, const TrapFrame* frame, uint64_t frame_pointer);
