// Static memory that the marking pass skips (reach/reach.h).
#pragma once

// For a variable that is zero at boot and later has values that look like pointers to objects.
// These values must not keep the objects alive. Example: the allocator's records of its own
// allocations.
#define NOT_ROOTS [[gnu::section(".bss.not_roots")]]
