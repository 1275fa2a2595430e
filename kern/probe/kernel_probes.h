// Functions for probes on kernel functions, in addition to those of probe.h.
#pragma once

#include <cstdint>

// A checksum of the kernel's current code: constant while no function is probed. Any context.
uint64_t kernel_text_checksum();
