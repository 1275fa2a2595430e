// The probes on one program: their addresses, instructions and consumers.
//
// A table is complete before it is published. A CPU finds the table without a lock, with interrupts
// off, and may use it until that CPU enables interrupts. So user_probes.cc frees a table only after
// an interprocessor interrupt has run on every CPU. A published table changes in one way only:
// removing a probe clears the consumer of its entry. So removing probes needs no memory. A site
// without consumers has no breakpoint any more, but a CPU may have hit the breakpoint before, so
// the site can still be found.
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
  uint32_t first, count;  // index of the first entry in the table, and number of entries
  bool returns;           // the site is a `ret`, not a function's nop
};

class ProbeTable {
 public:
  // Makes a table of `probes`, for `consumer`, and of the entries of `old` that still have a
  // consumer. `old` may be nullptr. ENOMEM. May sleep.
  static Result<ProbeTable*> create(const ProbeTable* old, ProbeConsumer& consumer,
                                    std::span<const UserProbe> probes);
  static void destroy(ProbeTable* table);

  // Returns the site at `address`; nullptr if there is none.
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

  // Removes the consumer from all entries. True if any entry had this consumer.
  bool remove(const ProbeConsumer& consumer);
  bool empty() const;
  // True if the page at address `page` has a site with a consumer.
  bool is_in(uint64_t page) const;

  // Patches `bytes`, the page of code at address `page`: writes the breakpoint at each site with a
  // consumer, and the original byte at each site without one. Also writes bytes that already have
  // the right value. Skips a site whose bytes are not the expected ones.
  void patch(uint64_t page, uint8_t* bytes) const;

 private:
  static constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;

  std::span<const ProbeSite> sites_in(uint64_t page) const;
  bool is_live(const ProbeSite& site) const;
  void fill_slots();

  uint32_t entry_count_ = 0, site_count_ = 0;
  uint32_t slot_shift_ = 0, slot_mask_ = 0;
  ProbeEntry* entries_ = nullptr;  // the entries of a site are adjacent
  ProbeSite* sites_ = nullptr;     // sorted by address
  // Hash table. Each slot is 0 (empty) or 1 + an index into `sites_`. At least half of the slots
  // are empty.
  uint32_t* slots_ = nullptr;
};
