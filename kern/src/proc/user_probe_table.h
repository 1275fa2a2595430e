// The probes on one program: their addresses, instructions and consumers.
//
// A table is complete before others find it, on any CPU, without a lock: with interrupts off, as
// long as they are off (the registry frees a table after a round of interrupts over all CPUs). Only
// one thing changes afterwards: entries lose their consumer. So removing probes needs no memory. A
// site without consumers has no breakpoint any more, but a CPU may have hit it before, so it can
// still be found.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "lib/result.h"
#include "probe/probe.h"

struct ProbeEntry {
  std::atomic<ProbeConsumer*> consumer;
  uint32_t tag;
};

struct ProbeSite {
  uint64_t address;
  uint32_t first, count;  // index into the table's entries; how many
  bool returns;           // a `ret`, not a function's nop
};

class ProbeTable {
 public:
  // Makes a table of the live entries of `old`, which may be nullptr, and `probes`. ENOMEM. May
  // sleep.
  static Result<ProbeTable*> create(const ProbeTable* old, ProbeConsumer& consumer,
                                    std::span<const UserProbe> probes);
  static void destroy(ProbeTable* table);

  // nullptr if there is none.
  const ProbeSite* find(uint64_t address) const {
    for (auto i = static_cast<uint32_t>(address * kMultiplier >> slot_shift_);;
         i = (i + 1) & slot_mask_) {
      if (slots_[i] == 0) return nullptr;
      const ProbeSite& site = sites_[slots_[i] - 1];
      if (site.address == address) return &site;
    }
  }
  std::span<ProbeEntry> entries(const ProbeSite& site) const {
    return {entries_ + site.first, site.count};
  }

  // True if it had any.
  bool remove(const ProbeConsumer& consumer);
  bool empty() const;
  // True if the page at address `page` has a site with a consumer.
  bool is_in(uint64_t page) const;

  // Writes the breakpoints of sites with a consumer to `bytes`, the page of code at address `page`,
  // and restores the instruction at sites without; also rewrites unchanged bytes. Skips a site
  // whose bytes are not the expected ones.
  void patch(uint64_t page, uint8_t* bytes) const;

 private:
  static constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;

  std::span<const ProbeSite> sites_in(uint64_t page) const;
  bool is_live(const ProbeSite& site) const;
  void fill_slots();

  uint32_t entry_count_ = 0, site_count_ = 0;
  uint32_t slot_shift_ = 0, slot_mask_ = 0;
  ProbeEntry* entries_ = nullptr;  // those of a site are adjacent
  ProbeSite* sites_ = nullptr;     // by address
  uint32_t* slots_ = nullptr;      // hash: number of a site plus one; at least half are 0
};
