// Kills a process when a page fault gets no memory. The rules are in out_of_memory.cc.
#pragma once

#include <cstdint>

struct Thread;

// Called when no page could be allocated for a fault of `thread`, the current thread, at `address`.
// True if the thread should try again, because memory may be free now. False if the thread's
// process is the victim, or if a signal is already ending the thread. May sleep; the caller holds
// no lock.
bool out_of_memory(Thread& thread, uint64_t address);
