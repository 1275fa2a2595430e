// What is kept of a signal until it is taken.
#pragma once

#include <cstdint>

#include "abi/syscall.h"
#include "lib/list.h"

struct PosixTimer;

// Why it came: what its handler learns in abi_siginfo.
struct SignalInfo {
  int32_t code = ABI_SI_KERNEL;
  uint32_t pid = 0, uid = 0;
  int32_t status = 0;
  uint64_t word = 0;  // a value (ABI_SI_QUEUE, ABI_SI_TIMER), or the address of a fault
};

// A pending signal with a value of its own, of which there may be several with one number.
struct QueuedSignal {
  int signal = 0;
  SignalInfo info;
  PosixTimer* timer = nullptr;  // whose it is; nullptr: sigqueue's, freed when it is taken
  ListNode link;
};
using SignalQueue = List<QueuedSignal, &QueuedSignal::link>;

// Frees those that sigqueue made. May sleep.
void signal_queue_free(SignalQueue& queue);
