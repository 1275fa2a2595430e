// The probes on one program: what stands at which address, and who is told.
//
// A table is made whole and then found by others, on any CPU, without a lock: with interrupts off,
// for as long as they are off (the registry frees a table after a round of interrupts over all
// CPUs). What changes in it afterwards is one thing: entries lose their consumer. So taking probes
// away needs no memory. A site whose entries have all lost theirs has no breakpoint any more, but a
// CPU may have run into it before, so that it is still found.
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
  uint32_t first, count;  // of the table's entries
  bool returns;           // a `ret`, not a function's nop
};

class ProbeTable {
 public:
  // What lives in `old`, which may be nullptr, and `probes`. ENOMEM. May sleep.
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

  // Whether it had any.
  bool remove(const ProbeConsumer& consumer);
  bool empty() const;
  // True if the page at address `page` has a site with a consumer.
  bool is_in(uint64_t page) const;

  // Puts the breakpoints of sites that have a consumer into `bytes`, the page of code at address
  // `page`, and takes out those of sites that have none any more; also writes what is there
  // already. Where something else stands than in the program that was looked at, nothing happens.
  void patch(uint64_t page, uint8_t* bytes) const;

 private:
  static constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;

  std::span<const ProbeSite> sites_in(uint64_t page) const;
  bool is_live(const ProbeSite& site) const;
  void fill_slots();

  uint32_t entry_count_ = 0, site_count_ = 0;
  uint32_t slot_shift_ = 0, slot_mask_ = 0;
  ProbeEntry* entries_ = nullptr;  // those of a site in a row
  ProbeSite* sites_ = nullptr;     // by address
  uint32_t* slots_ = nullptr;      // hash: number of a site plus one; at least half are 0
};
