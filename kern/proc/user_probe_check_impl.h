// Checks that probes can be put at the requested addresses.
#pragma once

#include <span>

#include "probe/probe.h"

// The instructions that a probe can replace, and the breakpoint that replaces their first byte.
inline constexpr uint8_t kFunctionNop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
inline constexpr uint8_t kReturnInstruction = 0xc3;
inline constexpr uint8_t kBreakpoint = 0xcc;

// Succeeds if each address of `probes` has the expected instruction, in code that the program
// cannot write. The section .stele.returns of `program` must also list the address of each `ret`.
// Otherwise EINVAL, with the error string set. ENOEXEC: `program` is no static program for this
// machine. ENOMEM; errors of reading. May sleep.
Result<void> user_probes_check(Chan& program, std::span<const UserProbe> probes);
