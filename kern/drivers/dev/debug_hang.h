// Hangs a CPU forever (#debug/ctl), for tests of the report that an NMI prints (core/nmi.h).
#pragma once

// Hangs with interrupts off and a lock held.
[[noreturn]] void debug_hang();
// Hangs with interrupts off, nearly always inside of the log, with the log's lock held.
[[noreturn]] void debug_hang_in_log();
