// The last lines of the kernel log: a ring of kLines slots.
//
// A writer takes the next number and owns the slot `number % kLines` from the moment when it clears
// the slot's `holds` until it stores number + 1 there. A reader takes a slot's text only if `holds`
// has the expected value before and after the copy. So a line is complete or missing, and an NMI
// may write while it interrupts a writer or a reader. Two writers share a slot only if kLines lines
// are written during one copy; the line in that slot may then be a mixture.
#include "core/log_buffer.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace {

constexpr size_t kLines = 256, kLineSize = 240;

struct Slot {
  std::atomic<uint64_t> holds;  // number of the line + 1, or 0 while there is no complete line
  std::atomic<uint32_t> length;
  std::array<std::atomic<char>, kLineSize> text;
};

constinit std::array<Slot, kLines> slots{};
constinit std::atomic<uint64_t> next_number{0};

// Copies the line `number` and a newline to `line`, which has kLineSize + 1 bytes. Returns the
// length with the newline; 0 if the line is not complete or no longer there.
size_t copy_line(uint64_t number, char* line) {
  const Slot& slot = slots[number % kLines];
  if (slot.holds.load(std::memory_order_acquire) != number + 1) return 0;
  const size_t length = std::min<size_t>(slot.length.load(std::memory_order_relaxed), kLineSize);
  for (size_t i = 0; i < length; i++) line[i] = slot.text[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.holds.load(std::memory_order_relaxed) != number + 1) return 0;
  line[length] = '\n';
  return length + 1;
}

}  // namespace

void log_keep(std::string_view line) {
  const uint64_t number = next_number.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots[number % kLines];
  slot.holds.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const size_t length = std::min(line.size(), kLineSize);
  for (size_t i = 0; i < length; i++) slot.text[i].store(line[i], std::memory_order_relaxed);
  slot.length.store(static_cast<uint32_t>(length), std::memory_order_relaxed);
  slot.holds.store(number + 1, std::memory_order_release);
}

size_t log_read(char* buffer, size_t size, uint64_t offset) {
  const uint64_t end = next_number.load(std::memory_order_relaxed);
  size_t copied = 0;
  for (uint64_t number = end > kLines ? end - kLines : 0; number < end && copied < size; number++) {
    char line[kLineSize + 1];
    const size_t length = copy_line(number, line);
    if (offset >= length) {
      offset -= length;
      continue;
    }
    const size_t part = std::min<size_t>(length - offset, size - copied);
    std::copy_n(line + offset, part, buffer + copied);
    copied += part;
    offset = 0;
  }
  return copied;
}
