// Checks that probes can be put at the requested addresses.
#pragma once

#include <span>

#include "probe/probe.h"

// The instructions that a probe can replace, and the breakpoint that replaces their first byte.
inline constexpr uint8_t kFunctionNop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
inline constexpr uint8_t kReturnInstruction = 0xc3;
inline constexpr uint8_t kBreakpoint = 0xcc;

// EINVAL, with the error string set, unless each address of `probes` has the expected instruction,
// in code of `program` that the program cannot write, and the program's section .stele.returns
// lists each `ret`. ENOEXEC; errors of reading. May sleep.
Result<void> user_probes_check(Chan& program, std::span<const UserProbe> probes);
