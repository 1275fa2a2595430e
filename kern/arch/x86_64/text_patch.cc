#include "arch/x86_64/text_patch.h"

#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "core/probe_guard.h"

extern "C" const uint8_t text_start[], text_end[];

namespace {

constexpr uint32_t kNopTail = 0x0000441f;

void serialise(void*) {
  cpuid(0);
}

}  // namespace

// text_write_byte() and text_write_tail() are called for each site that gets a probe. Both are
// NOT_PROBED: otherwise their calls would dominate the output of a probe of all functions.
NOT_PROBED void text_write_byte(uint64_t address, uint8_t byte) {
  text_write(address, &byte, sizeof(byte));
}

NOT_PROBED void text_write_tail(uint64_t address, void (*target)()) {
  uint32_t tail = kNopTail;
  if (target)
    tail = static_cast<uint32_t>(reinterpret_cast<uint64_t>(target) - (address + kTextEntryBytes));
  uint8_t bytes[sizeof(tail)];
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(tail);
    tail >>= 8;
  }
  text_write(address + 1, bytes, sizeof(bytes));
}

void text_sync() {
  on_each_cpu(serialise, nullptr);
}

// FNV-1a.
uint64_t text_checksum() {
  uint64_t sum = 0xcbf29ce484222325;
  for (const uint8_t* at = text_start; at < text_end; at++) sum = (sum ^ *at) * 0x100000001b3;
  return sum;
}
