// Probes on functions of programs: what the process layer calls. probe.h has what consumers see, user_probes.cc the theory.
#pragma once

#include <cstdint>

struct TrapFrame;

// For TrapHandlers: false if the breakpoint is the program's own.
bool user_probes_breakpoint(TrapFrame& frame);
