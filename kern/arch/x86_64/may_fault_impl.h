// For assembly: marks an instruction that may fault on user memory. The exception table gets the
// addresses of the instruction and of the next label 773. If trap.cc cannot resolve a fault of the
// instruction, it continues at this label.
// clang-format off
#pragma once

        .macro MAY_FAULT instruction:vararg
772:    \instruction
        .pushsection exception_table, "a"
        .quad 772b, 773f
        .popsection
        .endm
