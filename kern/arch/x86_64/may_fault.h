// For assembly: an instruction that may fault on user memory. The instruction's entry in the
// exception table names the next label 773, where trap.cc continues when the fault cannot be
// resolved.
// clang-format off
#pragma once

        .macro MAY_FAULT instruction:vararg
772:    \instruction
        .pushsection exception_table, "a"
        .quad 772b, 773f
        .popsection
        .endm
