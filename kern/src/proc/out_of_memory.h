// Chooses a victim when a page is wanted and there is no memory: out_of_memory.cc.
#pragma once

#include <cstdint>

struct Thread;

// Called when no page could be allocated for the current thread's process, at `address`. True: try
// again, some memory may be free now. False: the process itself is the victim, or a signal already
// ends it. May sleep; no lock held.
bool out_of_memory(Thread& thread, uint64_t address);
