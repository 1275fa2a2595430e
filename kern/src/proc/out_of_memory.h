// Who gives way when a page is wanted and there is no memory: out_of_memory.cc.
#pragma once

#include <cstdint>

struct Thread;

// A page of the current thread's process, at `address`, could not be had. True: some memory may
// have come back meanwhile, so it is worth another try. False: the process itself is to give way,
// and SIGKILL is pending for it. May sleep; no lock held.
bool out_of_memory(Thread& thread, uint64_t address);
