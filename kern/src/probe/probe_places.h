// Tables of the places where probes can be. The build makes them from the linked kernel
// (tools/stele/ksyms.py).
//
// Offsets are from kProbeText, ascending; the last entry is a sentinel that is larger than all.
#pragma once

#include <atomic>
#include <cstdint>

#include "arch/x86_64/paging.h"
#include "core/probe_guard.h"

struct ProbeItem;

extern "C" {
extern const char text_end[];

extern const uint32_t probe_place_count;
extern const uint32_t probe_places[];  // offset of the nop of each function that can be probed
extern const uint16_t
    probe_place_blocks[];  // for each block of text: the first place at or behind its beginning

extern const uint32_t probe_return_count;
extern const uint32_t probe_returns[];        // offset of each `ret` of those functions
extern const uint16_t probe_return_blocks[];  // as probe_place_blocks
extern const uint16_t probe_return_places[];  // its function

// Working arrays beside the tables: the list of each place, and whether its code, or that of a
// return, is being changed.
extern std::atomic<ProbeItem*> probe_lists[];
extern bool probe_places_changing[], probe_returns_changing[];
}

// Start of the code; ksyms.py checks this.
inline constexpr uint64_t kProbeText = kKernelImageBase + (1 << 20);
inline constexpr uint32_t kProbeBlock = 64;

NOT_PROBED [[gnu::always_inline]] inline uint32_t probe_offset(uint64_t address) {
  return static_cast<uint32_t>(address) - static_cast<uint32_t>(kProbeText);
}
NOT_PROBED [[gnu::always_inline]] inline bool probe_in_text(uint64_t address) {
  return address >= kProbeText && address < reinterpret_cast<uint64_t>(text_end);
}

NOT_PROBED inline uint64_t probe_place_address(uint32_t place) {
  return kProbeText + probe_places[place];
}
inline uint64_t probe_return_address(uint32_t index) {
  return kProbeText + probe_returns[index];
}

// Finds the place at `address`, which must be one.
NOT_PROBED [[gnu::always_inline]] inline uint32_t probe_place_at(uint64_t address) {
  const uint32_t offset = probe_offset(address);
  uint32_t place = probe_place_blocks[offset / kProbeBlock];
  while (probe_places[place] != offset) place++;
  return place;
}

// The same for any address; false if it is no place.
NOT_PROBED [[gnu::always_inline]] inline bool probe_find_place(uint64_t address, uint32_t* place) {
  if (!probe_in_text(address)) return false;
  const uint32_t offset = probe_offset(address);
  uint32_t at = probe_place_blocks[offset / kProbeBlock];
  while (probe_places[at] < offset) at++;
  *place = at;
  return probe_places[at] == offset;
}

// Finds the function whose `ret` is at `address`; false if there is none.
NOT_PROBED [[gnu::always_inline]] inline bool probe_find_return(uint64_t address, uint32_t* place) {
  if (!probe_in_text(address)) return false;
  const uint32_t offset = probe_offset(address);
  uint32_t at = probe_return_blocks[offset / kProbeBlock];
  while (probe_returns[at] < offset) at++;
  *place = probe_return_places[at];
  return probe_returns[at] == offset;
}
