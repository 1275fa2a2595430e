// Tables of the places where probes can be: the nops at the entries of functions, and their `ret`s.
// The build creates the tables from the linked kernel (tools/stele/ksyms.py).
//
// Offsets are bytes from kProbeText, in ascending order. The last offset of a table is a sentinel,
// which is larger than all others.
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
// For each block of kProbeBlock bytes of code: the index of the first place in the block or after
// it.
extern const uint16_t probe_place_blocks[];

extern const uint32_t probe_return_count;
extern const uint32_t probe_returns[];  // offset of each `ret` of these functions
// For each block: the index in probe_returns of the first `ret` in the block or after it.
extern const uint16_t probe_return_blocks[];
extern const uint16_t probe_return_places[];  // for each return: the index of its function's place

// Working arrays. For each place: the list of its probes (probe_lists), and whether its code is
// being changed (probe_places_changing). For each return: whether its code is being changed
// (probe_returns_changing).
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

// Returns the index of the place at `address`. There must be a place at this address.
NOT_PROBED [[gnu::always_inline]] inline uint32_t probe_place_at(uint64_t address) {
  const uint32_t offset = probe_offset(address);
  uint32_t place = probe_place_blocks[offset / kProbeBlock];
  while (probe_places[place] != offset) place++;
  return place;
}

// Finds the place at `address`, which may be any address; false if there is no place.
NOT_PROBED [[gnu::always_inline]] inline bool probe_find_place(uint64_t address, uint32_t* place) {
  if (!probe_in_text(address)) return false;
  const uint32_t offset = probe_offset(address);
  uint32_t at = probe_place_blocks[offset / kProbeBlock];
  while (probe_places[at] < offset) at++;
  *place = at;
  return probe_places[at] == offset;
}

// Finds the place of the function that has a `ret` at `address`; false if there is no `ret`.
NOT_PROBED [[gnu::always_inline]] inline bool probe_find_return(uint64_t address, uint32_t* place) {
  if (!probe_in_text(address)) return false;
  const uint32_t offset = probe_offset(address);
  uint32_t at = probe_return_blocks[offset / kProbeBlock];
  while (probe_returns[at] < offset) at++;
  *place = probe_return_places[at];
  return probe_returns[at] == offset;
}
