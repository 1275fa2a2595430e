// Static memory that the marking pass skips (reach/reach.h).
#pragma once

// For a variable that is zero at boot and holds values that look like pointers but keep no object
// alive, such as the allocator's records of its own allocations.
#define NOT_ROOTS [[gnu::section(".bss.not_roots")]]
