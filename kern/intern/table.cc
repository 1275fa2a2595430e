#include "intern/table_impl.h"

#include <algorithm>
#include <bit>
#include <new>
#include <optional>

#include "core/log.h"
#include "core/planted.h"
#include "core/probe_guard.h"
#include "intern/trace_memory.h"

// The only entry of the chain `unsplit`. Its kind does not exist, so no look-up matches it.
constinit InternTable::Entry InternTable::unsplit = {
    .next = nullptr, .key = (1u << kKindBits) - 1, .id = 0, .stamp = kDead};

// Not constinit, because clang cannot evaluate the initialiser of a flexible array.
const InternTable::Entry InternTable::no_entry = {
    .next = nullptr, .key = 0, .id = 0, .stamp = kDead, .data = {0, 0, 0, 0}};

namespace {

constexpr uint32_t kLoad = 2;    // entries per head above which the number of heads doubles
constexpr uint32_t kSlice = 64;  // entries, or empty chains, that one call of the sweep handles

[[gnu::always_inline]] inline void copy(uint32_t* to, const uint32_t* from, size_t words) {
  for (; words >= 4; words -= 4, to += 4, from += 4)
    __builtin_memcpy(to, from, 4 * sizeof(uint32_t));
  for (; words >= 2; words -= 2, to += 2, from += 2)
    __builtin_memcpy(to, from, 2 * sizeof(uint32_t));
  if (words > 0) __builtin_memcpy(to, from, 2 * sizeof(uint32_t));
}

}  // namespace

// --- Chains.

uint32_t InternTable::parent_of(uint32_t index) {
  return index & ~std::bit_floor(index);
}

bool InternTable::has_own_page(uint32_t index) const {
  const uint32_t page = index / kHeadsPerPage;
  return page == 0 || heads_[page].load(std::memory_order_acquire) !=
                          heads_[parent_of(page)].load(std::memory_order_relaxed);
}

// The head of the chain that has the entries of head `index`: this head itself, or its nearest
// split ancestor if this head is not split yet. The chain's lock is held.
InternTable::Head& InternTable::split_head(uint32_t index) {
  while (head_at(index).load(std::memory_order_relaxed) == &unsplit) index = parent_of(index);
  return head_at(index);
}

// Splits an unsplit chain: moves the entries of this chain and of its descendants out of the chain
// of the nearest split ancestor. Both chains have the same lock, which is held. A look-up that has
// just read a moved entry continues in the new chain. If the page of this head is an alias of a
// page in the lower half, splits the chain of the corresponding head in the lower half instead.
[[gnu::noinline]] void InternTable::split(uint32_t index) {
  while (!has_own_page(index)) index = parent_of(index);
  const uint32_t bits = 2 * std::bit_floor(index) - 1;
  Head* link = &split_head(parent_of(index));
  Entry* first = nullptr;
  for (Entry* entry = link->load(std::memory_order_relaxed); entry;) {
    Entry* const next = entry->next.load(std::memory_order_relaxed);
    if ((hash_of(entry->key) & bits) == index) {
      link->store(next, std::memory_order_release);
      entry->next.store(first, std::memory_order_release);
      first = entry;
    } else {
      link = &entry->next;
    }
    entry = next;
  }
  head_at(index).store(first, std::memory_order_release);
}

// Replaces the alias page of the head at this index by a page of unsplit heads, if there is memory.
// No lock is held.
void InternTable::take_head_page(uint32_t index) {
  void* const memory = trace_page_take();
  if (!memory) return;
  auto* const page = static_cast<HeadPage*>(memory);
#pragma GCC unroll 16
  for (Head& head : page->heads) new (&head) Head(&unsplit);
  std::atomic<HeadPage*>& at = heads_[index / kHeadsPerPage];
  HeadPage* lower = heads_[parent_of(index / kHeadsPerPage)].load(std::memory_order_acquire);
  if (at.compare_exchange_strong(lower, page, std::memory_order_release,
                                 std::memory_order_relaxed)) {
    head_pages_.fetch_add(1, std::memory_order_release);
  } else {
    trace_page_return(page);
  }
}

// Adds heads: replaces the alias page of the head at this index, or adds one bit to the mask.
[[gnu::noinline]] void InternTable::more_heads(uint32_t index) {
  if (has_own_page(index)) {
    grow();
  } else {
    take_head_page(index);
  }
}

// Adds one bit to the mask if there are more than kLoad entries per head and no page of heads is an
// alias.
void InternTable::grow() {
  if (growing_.exchange(true, std::memory_order_acquire)) return;
  const uint32_t heads = mask_.load(std::memory_order_relaxed) + 1, pages = heads / kHeadsPerPage;
  if (entries() / kLoad > heads && 2 * pages <= kMaxHeadPages &&
      head_pages_.load(std::memory_order_acquire) == pages) {
    for (uint32_t i = 0; i < pages; i++)
      heads_[pages + i].store(heads_[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
    mask_.store(2 * heads - 1, std::memory_order_release);
  }
  growing_.store(false, std::memory_order_release);
}

// --- Places.

[[gnu::noinline]] void InternTable::put_free(uint32_t id, uint32_t granules) {
  Entry& entry = place(id);
  std::atomic<FreeList>& list = free_[granules];
  FreeList before = list.load(std::memory_order_relaxed);
  do {
    entry.stamp.store(kDead | before.first, std::memory_order_relaxed);
  } while (!list.compare_exchange_weak(before, {id, before.changes + 1}, std::memory_order_release,
                                       std::memory_order_relaxed));
  free_granules_.fetch_add(granules, std::memory_order_relaxed);
}

// Takes a place of this size from its free list; 0 if the list is empty. If another CPU takes the
// first place meanwhile, the link read from it may be invalid. In this case the list has changed,
// and the compare-and-swap fails.
[[gnu::noinline]] uint32_t InternTable::take_free(uint32_t granules) {
  std::atomic<FreeList>& list = free_[granules];
  FreeList before = list.load(std::memory_order_acquire), after;
  do {
    if (before.first == 0) return 0;
    after = {at(before.first).stamp.load(std::memory_order_relaxed) & ~kDead, before.changes + 1};
  } while (!list.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                       std::memory_order_acquire));
  free_granules_.fetch_sub(granules, std::memory_order_relaxed);
  return before.first;
}

// Takes a place at `end_`. If this needs a page that is not in the directory, returns 0 and stores
// the page's number in *missing. When a new page is begun, the unused end of the previous page
// becomes a free place, provided that it is large enough.
inline uint32_t InternTable::take_end(uint32_t granules, uint32_t* missing) {
  uint32_t before = end_.load(std::memory_order_acquire), id;
  do {
    id = before;
    if (granules > left_in_page(before)) [[unlikely]] {
      const uint32_t page = pages_until(before);
      if (!pages_.find(page)) {
        *missing = page;
        return 0;
      }
      id = page * kPlacesPerPage + 1;
    }
  } while (!end_.compare_exchange_weak(before, id + granules, std::memory_order_acq_rel,
                                       std::memory_order_acquire));
  if (id != before && left_in_page(before) >= kLeast) [[unlikely]]
    put_free(before, left_in_page(before));
  return id;
}

// Takes a place by dividing a larger free place; 0 if there is none. The remainder is large enough
// to be a place.
[[gnu::noinline, gnu::cold]] uint32_t InternTable::take_larger(uint32_t granules) {
  for (uint32_t larger = granules + kLeast; larger <= kMost; larger++) {
    if (const uint32_t id = take_free(larger)) {
      put_free(id + granules, larger - granules);
      return id;
    }
  }
  return 0;
}

// --- Additions.

namespace {

// The lock guard for hooks, which have interrupts off. Waits for the lock by polling; other CPUs
// hold it for about a hundred instructions.
class SCOPED_CAPABILITY HookGuard {
 public:
  explicit HookGuard(HookLock& lock) ACQUIRE(lock) : lock_(lock) {
    while (!lock.lock_in_hook()) [[unlikely]] __builtin_ia32_pause();
  }
  ~HookGuard() RELEASE() { lock_.unlock_in_hook(); }
  HookGuard(const HookGuard&) = delete;
  HookGuard& operator=(const HookGuard&) = delete;

 private:
  HookLock& lock_;
};

}  // namespace

// Finds the entry, or adds it, without taking a page. If the addition needs a page, returns the
// number 0 and stores the page's number in *missing. `larger`: there is no memory for a page, so a
// larger free place may be divided.
[[gnu::always_inline]] inline InternTable::Interned InternTable::add_locked(uint64_t key,
                                                                            const uint32_t* data,
                                                                            bool larger,
                                                                            uint32_t* missing) {
  const HookGuard guard(lock_of(hash_of(key)));
  Head* head = &this->head(key);
  Entry* first = head->load(std::memory_order_relaxed);
  if (first == &unsplit) [[unlikely]] {
    split(index_of(key));
    head = &split_head(index_of(key));
    first = head->load(std::memory_order_relaxed);
  }
  for (Entry* entry = first; entry; entry = entry->next.load(std::memory_order_relaxed)) {
    if (entry->key == key && equal(entry->data, data, words_of(key))) {
      stamp(*entry);
      return {entry->id, true};
    }
  }
  const uint32_t granules = granules_of(words_of(key));
  uint32_t id = 0;
  if (free_granules_.load(std::memory_order_relaxed) != 0) id = take_free(granules);
  if (id == 0) id = take_end(granules, missing);
  if (id == 0) [[unlikely]] {
    if (larger) id = take_larger(granules);
    if (id == 0) return {0, false};
  }
  Entry& entry = place(id);
  entry.next.store(first, std::memory_order_relaxed);
  entry.key = key;
  entry.id = id;
  entry.stamp.store(epoch_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  copy(entry.data, data, words_of(key));
  count_of(key).fetch_add(1, std::memory_order_relaxed);
  head->store(&entry, std::memory_order_release);
  return {id, false};
}

// Adds an entry for which page number `missing` is needed. If other CPUs fill that page first, the
// addition needs the next page.
[[gnu::noinline, gnu::cold]] InternTable::Interned InternTable::add_in_page(uint64_t key,
                                                                            const uint32_t* data,
                                                                            uint32_t missing) {
  for (;;) {
    const bool larger = missing >= kMaxPages || pages_.obtain(missing) == nullptr;
    const Interned added = add_locked(key, data, larger, &missing);
    if (added.id != 0) return added;
    if (larger) {
      refused_.store(true, std::memory_order_relaxed);
      return added;
    }
  }
}

InternTable::Interned InternTable::add(uint64_t key, const uint32_t* data) {
  uint32_t missing = 0;
  const Interned added = add_locked(key, data, false, &missing);
  if (added.id == 0) [[unlikely]]
    return add_in_page(key, data, missing);
  if (entries() > mask_.load(std::memory_order_relaxed)) [[unlikely]]
    more_heads(index_of(key));
  return added;
}

// --- Forgetting.

// Bugs planted here for tests (core/planted.h) show only in windows of a few instructions. This
// function widens the windows. The kernel widens only one window in 16, because with --icount QEMU
// runs one CPU at a time, and each pause lets all other CPUs run.
[[maybe_unused]] static void linger() {
#ifdef STELE_HOST
  constexpr int kPauses = 100;
#else
  constexpr int kPauses = 10;
  static constinit std::atomic<uint32_t> windows{0};
  if (windows.fetch_add(1, std::memory_order_relaxed) % 16 != 0) return;
#endif
  for (int i = 0; i < kPauses; i++) __builtin_ia32_pause();
}

// Sets the entry's stamp to the epoch. False if the entry is dead.
bool InternTable::stamp(Entry& entry) const {
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed);
  uint32_t before = entry.stamp.load(std::memory_order_relaxed);
  if (planted(Planted::kSweepEarlyReuse) && before != epoch) linger();
  do {
    if (before == epoch) return true;
    if ((before & kDead) != 0) return false;
  } while (!entry.stamp.compare_exchange_weak(before, epoch, std::memory_order_relaxed));
  return true;
}

void InternTable::retain(Entry& entry) {
  const bool alive = stamp(entry);
  ASSERT(alive);
}

void InternTable::retain(uint32_t id) {
  if (id != 0) retain(place(id));
}

void InternTable::retain_referred(const Entry& entry) {
  if (kind_of(entry.key) == Kind::kPair) {
    retain(entry.data[0]);
    retain(entry.data[1]);
  } else {
    retain(Entry::of(referred_data(entry.data)));
  }
}

void InternTable::begin_epoch() {
  const uint32_t next = (epoch_.load(std::memory_order_relaxed) + 1) & ~kDead;
  epoch_.store(next == 0 ? 1 : next);
  swept_ = 0;
  refused_.store(false, std::memory_order_relaxed);
}

// Makes the entry dead and puts it into the list `limbo_`, unless its stamp is the epoch. Returns
// true if the entry is dead now.
bool InternTable::kill(Entry& entry) {
  uint32_t before = entry.stamp.load(std::memory_order_relaxed);
  if (before == epoch_.load(std::memory_order_relaxed)) return false;
  if (planted(Planted::kSweepNoSecondLook)) {
    linger();
    entry.stamp.store(kDead | limbo_, std::memory_order_relaxed);
  } else if (!entry.stamp.compare_exchange_strong(before, kDead | limbo_,
                                                  std::memory_order_relaxed)) {
    return false;
  }
  limbo_ = entry.id;
  count_of(entry.key).fetch_sub(1, std::memory_order_relaxed);
  return true;
}

// Sweeps one chain. Returns the number of entries visited.
uint32_t InternTable::sweep_chain(uint32_t index, Pass pass) {
  // An empty chain needs no sweep: entries that are added to it now have the stamp of this epoch.
  if (!head_at(index).load(std::memory_order_relaxed)) return 0;
  const ProbesOff no_hit;
  const Guard guard(lock_of(index));
  Head* link = &head_at(index);
  if (link->load(std::memory_order_relaxed) == &unsplit) return 0;
  uint32_t seen = 0;
  for (Entry* entry = link->load(std::memory_order_relaxed); entry; seen++) {
    Entry* const next = entry->next.load(std::memory_order_relaxed);
    if (pass_of(entry->key) == pass && kill(*entry)) {
      link->store(next, std::memory_order_release);
      if (planted(Planted::kSweepEarlyReuse)) reuse();
    } else {
      if (pass == Pass::kReferring && pass_of(entry->key) == pass) retain_referred(*entry);
      link = &entry->next;
    }
    entry = next;
  }
  return seen;
}

bool InternTable::sweep(Pass pass) {
  if (!is_open()) return false;
  for (uint32_t work = 0; work < kSlice; work++) {
    if (swept_ > mask_.load(std::memory_order_acquire)) {
      swept_ = 0;
      if (pass == Pass::kReferred) survivors_.store(entries(), std::memory_order_relaxed);
      return false;
    }
    if (has_own_page(swept_)) {
      work += sweep_chain(swept_++, pass);
    } else {
      swept_ += kHeadsPerPage;
    }
  }
  return true;
}

bool InternTable::reuse() {
  for (uint32_t i = 0; i < kSlice && limbo_ != 0; i++) {
    const uint32_t id = limbo_;
    const Entry& entry = at(id);
    limbo_ = entry.stamp.load(std::memory_order_relaxed) & ~kDead;
    put_free(id, granules_of(entry.words()));
  }
  return limbo_ != 0;
}

// --- The whole table.

Result<void> InternTable::open() {
  trace_memory_prepare();
  void* const memory = trace_page_take();
  if (!memory) return Errno::ENOMEM;
  auto* const page = static_cast<HeadPage*>(memory);
  for (Head& head : page->heads) new (&head) Head(nullptr);
  heads_[0].store(page, std::memory_order_relaxed);
  head_pages_.store(1, std::memory_order_relaxed);
  // Takes the directory page now, so that no hook has to take it.
  trace_memory_prepare();
  const bool begun = pages_.obtain(0) != nullptr;
  mask_.store(kHeadsPerPage - 1, std::memory_order_release);
  if (begun) return {};
  clear();
  return Errno::ENOMEM;
}

void InternTable::clear() {
  pages_.clear();
  for (uint32_t i = (mask_.load(std::memory_order_relaxed) + 1) / kHeadsPerPage; i-- > 0;) {
    if (has_own_page(i * kHeadsPerPage)) trace_page_free(heads_[i].load(std::memory_order_relaxed));
  }
  mask_.store(0, std::memory_order_relaxed);
  head_pages_.store(0, std::memory_order_relaxed);
  end_.store(0, std::memory_order_relaxed);
  for (std::atomic<FreeList>& list : free_) list.store({}, std::memory_order_relaxed);
  free_granules_.store(0, std::memory_order_relaxed);
  for (std::atomic<uint32_t>& count : counts_) count.store(0, std::memory_order_relaxed);
  survivors_.store(0, std::memory_order_relaxed);
  refused_.store(false, std::memory_order_relaxed);
  swept_ = limbo_ = 0;
}

InternTable::Fill InternTable::fill() const {
  const uint32_t end = this->end(), pages = pages_until(end);
  const uint32_t directory = (pages + PageDirectory::kFanout - 1) / PageDirectory::kFanout;
  return {
      .entries = entries(),
      .survivors = survivors_.load(std::memory_order_relaxed),
      .refused = refused_.load(std::memory_order_relaxed),
      .bytes_held =
          uint64_t{pages + directory + head_pages_.load(std::memory_order_relaxed)} * kPageSize,
      .bytes_free =
          uint64_t{free_granules_.load(std::memory_order_relaxed) + left_in_page(end)} * kGranule};
}
