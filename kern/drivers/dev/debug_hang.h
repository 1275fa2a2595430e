// For #debug/ctl: hangs a CPU forever, for the tests of the NMI's report.
#pragma once

// With interrupts off and a lock held.
[[noreturn]] void debug_hang();
// With interrupts off, nearly always inside of the log, with its lock held.
[[noreturn]] void debug_hang_in_log();
