// A check that translations are invalidated (CONFIG_TLB_CHECK).
//
// A processor may use a translation that a change of a page table has made invalid, until it
// executes INVLPG for the page or loads CR3. It also caches entries that lead to tables, which
// emulators do not. So if the kernel forgets an invalidation, often only a real processor shows the
// error. This check finds it in every emulator: it keeps a list of all invalid translations,
// each with the CPUs that may still use it, and panics
//
// - when a page or table is freed to which an invalid translation leads,
// - when the mutex of an address space is released while an invalid translation is left in it,
// - when unmap_kernel() returns while a CPU may still use the mapping.
//
// The list is exact, not a guess: a CPU may use a translation if it was active in the tables when
// the entry changed, and has invalidated nothing that covers the address since then.
//
// All functions may be called in any context but NMI.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/units.h"

// A translation of an entry that has been changed.
struct InvalidTranslation {
  uint64_t address;  // virtual; a multiple of a page
  PhysAddr page{};   // page or table that the entry no longer leads to; {}: only rights were taken
  bool is_table = false;
};

#ifdef CONFIG_TLB_CHECK

// Notes that the entry has changed in the tables with this root. `active`: a bit for each CPU on
// which the tables are active.
void translation_is_invalid(PhysAddr root, const std::atomic<uint64_t>& active,
                            const InvalidTranslation& what);
// The same for tables that are active on every CPU: the kernel's.
void translation_is_invalid_everywhere(PhysAddr root, const InvalidTranslation& what);
// This CPU has executed INVLPG for each page in [start, end).
void translations_invalidated(uint64_t start, uint64_t end);
// This CPU is going to load the tables with this root into CR3, even if they are there.
void translations_loading(PhysAddr root);
// This CPU has loaded other tables, and so has no translation from the tables with this root any
// more. Clears the CPU's bit in `active`; afterwards the tables may be freed.
void translations_left(PhysAddr root, std::atomic<uint64_t>& active, uint64_t bit);
// Panics if a CPU may still use an invalid translation of an address in [start, end).
void check_translations(PhysAddr root, uint64_t start, uint64_t end);
// Panics if an invalid translation leads to the page.
void check_translations_to(PhysAddr page);

#else

inline void translation_is_invalid(PhysAddr, const std::atomic<uint64_t>&,
                                   const InvalidTranslation&) {}
inline void translation_is_invalid_everywhere(PhysAddr, const InvalidTranslation&) {}
inline void translations_invalidated(uint64_t, uint64_t) {}
inline void translations_loading(PhysAddr) {}
inline void translations_left(PhysAddr, std::atomic<uint64_t>& active, uint64_t bit) {
  active.fetch_and(~bit, std::memory_order_release);
}
inline void check_translations(PhysAddr, uint64_t, uint64_t) {}
inline void check_translations_to(PhysAddr) {}

#endif
