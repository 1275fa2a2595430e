// Of #debug/ctl: a CPU that never comes back, for the tests of what an NMI shows.
#pragma once

// With interrupts off and a lock held.
[[noreturn]] void debug_hang();
// With interrupts off, nearly always within the log, whose lock it then holds.
[[noreturn]] void debug_hang_in_log();
