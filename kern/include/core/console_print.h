// Straight to the console, for accounts of what has gone wrong: panics and NMIs.
#pragma once

#include <cstdint>

struct TrapFrame;

// One line, without a time stamp. Any context.
void console_print(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// What this CPU does: task, registers of what was interrupted (`frame`, if it is not nullptr),
// backtrace through all traps on this stack (from `frame`, or else from `frame_pointer`), locks
// held. Interrupts off; by one CPU at a time.
void console_print_cpu(const TrapFrame* frame, uint64_t frame_pointer);
