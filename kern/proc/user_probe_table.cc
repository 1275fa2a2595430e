#include "proc/user_probe_table_impl.h"

#include <algorithm>
#include <bit>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "lib/units.h"
#include "proc/user_probe_check_impl.h"

namespace {

// An entry with its address, for a table that is being made.
struct Wanted {
  uint64_t address;
  ProbeConsumer* consumer;
  uint32_t tag;
  bool returns;
};

class WantedList {
 public:
  ~WantedList() { kfree(items_); }
  Result<void> reserve(size_t count) {
    items_ = static_cast<Wanted*>(kmalloc(count * sizeof(Wanted), KM_SLEEP));
    if (!items_) return Errno::ENOMEM;
    return {};
  }
  void add(const Wanted& item) { items_[count_++] = item; }
  std::span<Wanted> items() { return {items_, count_}; }

 private:
  Wanted* items_ = nullptr;
  size_t count_ = 0;
};

// True if the instruction that a probe replaces is at index `at` of the page: a `ret` if `returns`
// is true, otherwise a function's nop. Its first byte is expected to be `first`, because a
// breakpoint may have replaced the original byte. A nop may continue on the next page; the bytes
// there are not compared.
bool stands_at(const uint8_t* page, size_t at, uint8_t first, bool returns) {
  if (page[at] != first) return false;
  if (returns) return true;
  const size_t rest = std::min(sizeof(kFunctionNop), kPageSize - at) - 1;
  return memcmp(page + at + 1, kFunctionNop + 1, rest) == 0;
}

}  // namespace

Result<ProbeTable*> ProbeTable::create(const ProbeTable* old, ProbeConsumer& consumer,
                                       std::span<const UserProbe> probes) {
  size_t most = old ? old->entry_count_ : 0;
  for (const UserProbe& probe : probes) most += 1 + probe.returns.size();
  if (most > UINT32_MAX / 4) return Errno::ENOMEM;
  WantedList wanted;
  TRY(wanted.reserve(most));
  if (old) {
    for (const ProbeSite& site : std::span(old->sites_, old->site_count_)) {
      for (const ProbeEntry& entry : old->entries(site)) {
        ProbeConsumer* const has_it = entry.consumer.load(std::memory_order_relaxed);
        if (has_it) wanted.add({site.address, has_it, entry.tag, site.returns});
      }
    }
  }
  for (const UserProbe& probe : probes) {
    wanted.add({probe.address, &consumer, probe.tag, false});
    for (const uint64_t address : probe.returns) wanted.add({address, &consumer, probe.tag, true});
  }
  const std::span<Wanted> items = wanted.items();
  std::sort(items.begin(), items.end(),
            [](const Wanted& a, const Wanted& b) { return a.address < b.address; });
  uint32_t sites = 0;
  for (size_t i = 0; i < items.size(); i++)
    sites += i == 0 || items[i].address != items[i - 1].address;
  const uint32_t slots = std::bit_ceil(2 * sites);

  const size_t size = sizeof(ProbeTable) + items.size() * sizeof(ProbeEntry) +
                      sites * sizeof(ProbeSite) + slots * sizeof(uint32_t);
  char* const memory = static_cast<char*>(kmalloc(size, KM_SLEEP));
  if (!memory) return Errno::ENOMEM;
  auto* const table = new (memory) ProbeTable;
  table->entries_ = reinterpret_cast<ProbeEntry*>(memory + sizeof(ProbeTable));
  table->sites_ = reinterpret_cast<ProbeSite*>(table->entries_ + items.size());
  table->slots_ = reinterpret_cast<uint32_t*>(table->sites_ + sites);
  table->slot_shift_ = 64 - static_cast<uint32_t>(std::countr_zero(slots));
  table->slot_mask_ = slots - 1;
  for (const Wanted& item : items) {
    if (table->site_count_ == 0 || table->sites_[table->site_count_ - 1].address != item.address) {
      table->sites_[table->site_count_++] = {item.address, table->entry_count_, 0, item.returns};
    }
    table->sites_[table->site_count_ - 1].count++;
    new (&table->entries_[table->entry_count_++]) ProbeEntry{item.consumer, item.tag};
  }
  table->fill_slots();
  return table;
}

void ProbeTable::fill_slots() {
  memset(slots_, 0, (size_t{slot_mask_} + 1) * sizeof(uint32_t));
  for (uint32_t site = 0; site < site_count_; site++) {
    auto i = static_cast<uint32_t>(sites_[site].address * kMultiplier >> slot_shift_);
    while (slots_[i] != 0) i = (i + 1) & slot_mask_;
    slots_[i] = site + 1;
  }
}

void ProbeTable::destroy(ProbeTable* table) {
  kfree(table);
}

bool ProbeTable::remove(const ProbeConsumer& consumer) {
  bool any = false;
  for (ProbeEntry& entry : std::span(entries_, entry_count_)) {
    if (entry.consumer.load(std::memory_order_relaxed) != &consumer) continue;
    entry.consumer.store(nullptr, std::memory_order_release);
    any = true;
  }
  return any;
}

bool ProbeTable::empty() const {
  return std::ranges::none_of(std::span(sites_, site_count_),
                              [this](const ProbeSite& site) { return is_live(site); });
}

bool ProbeTable::is_live(const ProbeSite& site) const {
  return std::ranges::any_of(entries(site), [](const ProbeEntry& entry) {
    return entry.consumer.load(std::memory_order_acquire) != nullptr;
  });
}

std::span<const ProbeSite> ProbeTable::sites_in(uint64_t page) const {
  const std::span<const ProbeSite> sites(sites_, site_count_);
  const auto below = [](const ProbeSite& site, uint64_t address) { return site.address < address; };
  return {std::lower_bound(sites.begin(), sites.end(), page, below),
          std::lower_bound(sites.begin(), sites.end(), page + kPageSize, below)};
}

bool ProbeTable::is_in(uint64_t page) const {
  return std::ranges::any_of(sites_in(page),
                             [this](const ProbeSite& site) { return is_live(site); });
}

// A program may be running the page on another CPU. An emulator of several CPUs notices a write to
// translated code only if the writing CPU's TLB says that there is such code. QEMU 7.2 sometimes
// loses this mark of an entry: when the other CPU translates code of the page while a write
// discards the code's last translation. So the entry is flushed first.
void ProbeTable::patch(uint64_t page, uint8_t* bytes) const {
  const InterruptsOff off;  // stays on the CPU whose TLB was flushed
  invalidate_page(reinterpret_cast<uint64_t>(bytes));
  for (const ProbeSite& in_page : sites_in(page)) {
    const ProbeSite* const site = &in_page;
    const size_t at = site->address - page;
    const uint8_t original = site->returns ? kReturnInstruction : kFunctionNop[0];
    if (!stands_at(bytes, at, original, site->returns) &&
        !stands_at(bytes, at, kBreakpoint, site->returns))
      continue;
    __atomic_store_n(&bytes[at], is_live(*site) ? kBreakpoint : original, __ATOMIC_RELEASE);
  }
}
