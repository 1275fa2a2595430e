// Bugs planted on purpose, for the tests that see whether they are found.
//
// They are only in the kernel `break` (configs/break.config), asleep until `break=NAME,…` on the
// kernel command line wakes them. In every other kernel planted() is false at compile time.
#pragma once

#include <cstdint>

// X(enumerator, name)
#define PLANTED_BUGS(X)                                                            \
  X(kPipeClose, "pipe_close") /* closing a pipe leaves its buffer behind */        \
  X(kWalkError, "walk_error") /* a walk that fails keeps the directory reached */  \
  X(kExitFiles, "exit_files") /* a process that ends keeps its descriptor table */ \
  /* only where an allocation has failed */                                        \
  X(kForkError, "fork_error")     /* a fork keeps the child's descriptor table */  \
  X(kLoadError, "load_error")     /* an exec keeps the new address space */        \
  X(kCreateError, "create_error") /* a new file in #tmp stays without a name */    \
  X(kBindError, "bind_error")     /* a bind as union keeps the target's channel */ \
  X(kFaultError, "fault_error")   /* a page stays that could not be mapped */

#define PLANTED_ENUMERATOR(enumerator, name) enumerator,
enum class Planted : uint32_t { PLANTED_BUGS(PLANTED_ENUMERATOR) };
#undef PLANTED_ENUMERATOR

#ifdef CONFIG_PLANTED_BUGS
// Reads the command line. Once; panics at a name that there is not.
void planted_init();
// Whether the bug is awake. Any context.
bool planted(Planted bug);
#else
inline void planted_init() {}
constexpr bool planted(Planted) {
  return false;
}
#endif
