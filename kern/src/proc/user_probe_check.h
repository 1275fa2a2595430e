// Whether probes can be put where somebody wants them.
#pragma once

#include <span>

#include "probe/probe.h"

// What stands where a probe may be: only its first byte is replaced.
inline constexpr uint8_t kFunctionNop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
inline constexpr uint8_t kReturnInstruction = 0xc3;
inline constexpr uint8_t kBreakpoint = 0xcc;

// EINVAL, with the error string set, unless at each address of `probes` stands what has to, in code
// of `program` that it cannot write to itself, and its section .stele.returns has each `ret`;
// ENOEXEC; what reading gives. May sleep.
Result<void> user_probes_check(Chan& program, std::span<const UserProbe> probes);
