// The list of invalid translations.
//
// The list is short: an address space flushes after each 32 removed pages. Only changes of rights
// could make it long, since mprotect() of much memory flushes once at its end. So these changes
// share one item for each set of tables, with the range from the first address to the last, which
// is also what the flush will cover. This CPU invalidates each page by itself at once, so for this
// CPU the change gets an item of its own.
//
// All functions are called by text_write(), for probes, so they are not probed.
#include "arch/x86_64/tlb_check.h"

#include <algorithm>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/probe_guard.h"

namespace {

struct Item {
  uint64_t root, start, end;
  uint64_t page;  // 0: only rights were taken
  uint64_t cpus;  // the CPUs that may still use the translation; never 0
  bool is_table;
};

constexpr unsigned kMostItems = 2048;
constinit Item items[kMostItems] = {};
constinit std::atomic<unsigned> count{0};
constinit std::atomic_flag locked{};

// Not a Spinlock, because a Spinlock has a rank, and its functions may be probed.
class Locked {
 public:
  NOT_PROBED Locked() {
    while (locked.test_and_set(std::memory_order_acquire)) cpu_relax();
  }
  NOT_PROBED ~Locked() { locked.clear(std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  InterruptsOff off_;
};

NOT_PROBED uint64_t bit_of_this_cpu() {
  return uint64_t{1} << number_of(cpu_id());
}

NOT_PROBED bool overlap(const Item& item, uint64_t start, uint64_t end) {
  return item.start < end && start < item.end;
}

NOT_PROBED void add(const Item& item) {
  const unsigned at = count.load(std::memory_order_relaxed);
  if (item.cpus == 0) return;
  if (at == kMostItems) panic("more than %u invalid translations", kMostItems);
  items[at] = item;
  count.store(at + 1, std::memory_order_relaxed);
}

// Adds a change of rights for other CPUs.
NOT_PROBED void widen(const Item& change) {
  if (change.cpus == 0) return;
  for (unsigned i = 0; i < count.load(std::memory_order_relaxed); i++) {
    Item& item = items[i];
    if (item.root != change.root || item.page != 0 || (item.cpus & change.cpus) != change.cpus)
      continue;
    if (item.cpus & bit_of_this_cpu()) continue;
    item.start = std::min(item.start, change.start);
    item.end = std::max(item.end, change.end);
    return;
  }
  add(change);
}

// This CPU has invalidated the items for which covers(item) is true. The caller holds the lock.
template <typename Covers>
NOT_PROBED void remove(Covers covers) {
  const uint64_t me = bit_of_this_cpu();
  for (unsigned i = 0; i < count.load(std::memory_order_relaxed);) {
    Item& item = items[i];
    if ((item.cpus & me) && covers(item)) item.cpus &= ~me;
    if (item.cpus != 0) {
      i++;
      continue;
    }
    const unsigned last = count.load(std::memory_order_relaxed) - 1;
    item = items[last];
    count.store(last, std::memory_order_relaxed);
  }
}

template <typename Covers>
NOT_PROBED void invalidated(Covers covers) {
  if (count.load(std::memory_order_relaxed) == 0) return;
  const Locked guard;
  remove(covers);
}

template <typename Matches>
NOT_PROBED void check(const char* event, Matches matches) {
  if (count.load(std::memory_order_relaxed) == 0) return;
  Item found{};
  {
    const Locked guard;
    for (unsigned i = 0; i < count.load(std::memory_order_relaxed); i++) {
      if (matches(items[i])) found = items[i];
    }
    // The panic must not find the same item again.
    if (found.cpus) count.store(0, std::memory_order_relaxed);
  }
  if (found.cpus == 0) return;
  panic("%s, but CPUs %lx may still use a translation of %lx to %lx%s %lx", event, found.cpus,
        found.start, found.end,
        found.page == 0  ? " with its old rights"
        : found.is_table ? " by the table"
                         : " to the page",
        found.page);
}

}  // namespace

NOT_PROBED void translation_is_invalid(PhysAddr root, const std::atomic<uint64_t>& active,
                                       const InvalidTranslation& what) {
  const Locked guard;
  // Read with the lock held: either a CPU's bit is clear, or translations_left() will remove the
  // CPU from the item.
  const uint64_t cpus = active.load(std::memory_order_relaxed), me = bit_of_this_cpu();
  Item item{root.value,      what.address, what.address + kPageSize,
            what.page.value, cpus,         what.is_table};
  if (what.page.value) return add(item);
  item.cpus = cpus & me;
  add(item);
  item.cpus = cpus & ~me;
  widen(item);
}

void translation_is_invalid_everywhere(PhysAddr root, const InvalidTranslation& what) {
  std::atomic<uint64_t> online{0};
  for (const CpuId cpu : all_cpus()) online |= uint64_t{1} << number_of(cpu);
  translation_is_invalid(root, online, what);
}

NOT_PROBED void translations_invalidated(uint64_t start, uint64_t end) {
  // INVLPG invalidates all cached entries that lead to tables (Intel SDM volume 3, section
  // 4.10.4.1).
  invalidated([=](const Item& item) __attribute__((no_instrument_function)) {
    return item.is_table || (start <= item.start && item.end <= end);
  });
}

NOT_PROBED void translations_loading(PhysAddr root) {
  invalidated([=](const Item& item)
                  __attribute__((no_instrument_function)) { return item.root == root.value; });
}

// The bit and the items change together, since flush() leaves out a CPU whose bit is clear.
NOT_PROBED void translations_left(PhysAddr root, std::atomic<uint64_t>& active, uint64_t bit) {
  const Locked guard;
  active.fetch_and(~bit, std::memory_order_release);
  remove([=](const Item& item)
             __attribute__((no_instrument_function)) { return item.root == root.value; });
}

NOT_PROBED void check_translations(PhysAddr root, uint64_t start, uint64_t end) {
  check(
      "a change of page tables ends", [=
  ](const Item& item) __attribute__((no_instrument_function)) {
        return item.root == root.value && overlap(item, start, end);
      });
}

NOT_PROBED void check_translations_to(PhysAddr page) {
  check(
      "a page is freed", [=](const Item& item) __attribute__((no_instrument_function)) {
        return item.page == page.value;
      });
}
