// Static memory that the marking pass leaves out.
#pragma once

// Of a variable that is zero at boot: what it has looks like pointers to objects and keeps none of
// them alive, as the allocator's own records of what it has given out. For reach/reach.h.
#define NOT_ROOTS [[gnu::section(".bss.not_roots")]]
