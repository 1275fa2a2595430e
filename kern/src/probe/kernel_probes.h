// What probes on kernel functions offer beside probe.h.
#pragma once

#include <cstdint>

// A sum of the kernel's code as it is now: with no probe on any function it is always the same. Any
// context.
uint64_t kernel_text_checksum();
