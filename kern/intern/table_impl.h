// A table of sequences of words. It stores each sequence once, under a 32-bit number, until nobody
// refers to the number any more. The common base class of StackTable (stack_table.h) and
// ContextTable (context_table.h).
//
// A hash table with chains, after Linux' lib/stackdepot.c, the stack depot of KASAN. Equality is a
// full compare of kind and words, so each sequence has exactly one number. When there is no memory,
// the number is 0 ("not recorded"), which the caller counts.
//
// Look-ups take no lock; interrupts are off. While a chain is split, a look-up may miss an existing
// entry. A look-up that finds nothing locks the chain, searches it again, and adds the entry if it
// is still missing. The lowest bits of the hash select the lock. These bits do not change as the
// table grows, so the lock of an entry stays the same.
//
// The number of chain heads grows with the entries, by linear hashing (Litwin 1980), but a chain is
// split only when an addition locks it. `mask_` is the number of heads minus one. When there are
// too few heads, `mask_` gets one more bit. At first each page of heads in the new upper half is an
// alias of the corresponding page in the lower half, whose chains still have the entries. An
// addition that finds such an alias replaces it by a new page, if there is memory. In the new page,
// each head points to `unsplit`, an entry that no look-up matches. The next addition that locks the
// chain of such a head splits the chain: the addition moves the chain's own entries out of the
// chain of the nearest split ancestor. (The index of a chain's parent is the chain's index without
// its highest set bit.) So an entry is always in its own head's chain, or in the chain of the
// nearest split ancestor.
//
// Entries are forgotten by mark and sweep, without reference counts. An entry has a stamp: the
// epoch in which it was last looked up, added or retained. The first look-up in an epoch changes
// the stamp by compare-and-swap; later look-ups only compare it. The sweep sets older stamps to
// kDead, by compare-and-swap as well. So a concurrent look-up either comes first, and the entry
// stays, or finds the entry dead and adds another. The sweep unlinks a dead entry before it
// releases the chain's lock, so no other holder of this lock sees a dead entry in the chain. An
// unlinked entry goes to a list (`limbo_`), since look-ups under way may still read it. When these
// look-ups are over, the memory of the entry (its place) becomes free for the next entry of the
// same size. A number is valid as long as its user retains it in each sweep.
//
// Free places are in lock-free lists by size, in units of kGranule bytes; a counter next to each
// list's head prevents the ABA problem. If the list of a size is empty, a place is taken at `end_`,
// where the unused part of the last page begins. If this needs another page and there is no memory,
// a larger free place is divided. Pages are allocated with no lock held, because a page that proves
// unneeded may go back to the arena, which has a lock. An addition takes one page at most, for its
// entry or for heads, and perhaps a directory page. In a rare case the addition takes more pages:
// other CPUs fill the new page before the addition finds a place there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/hook_lock.h"
#include "intern/ids.h"
#include "intern/page_directory_impl.h"
#include "lib/hash.h"
#include "lib/result.h"

class InternTable {
 public:
  // A sweep has two passes: first over the entries that refer to other entries (a pair refers to
  // two stacks, a context to its program), then over stacks and programs.
  enum class Pass : uint8_t { kReferring, kReferred };

  InternTable(const InternTable&) = delete;
  InternTable& operator=(const InternTable&) = delete;

  // The table's size. Exact while nobody adds entries.
  struct Fill {
    uint32_t entries;     // entries that a look-up can find
    uint32_t survivors;   // entries at the end of the last sweep; 0 before the first sweep
    bool refused;         // an entry was not added for lack of memory since the last sweep began
    uint64_t bytes_held;  // bytes of trace memory that the table has
    uint64_t bytes_free;  // how many of these bytes are free for new entries
  };
  Fill fill() const;

  // The steps of a sweep. One task at a time sweeps; it may sleep between the steps. A round is an
  // interrupt on every CPU. Hooks have interrupts off, so after a round all earlier hooks are over.
  // The first round of a sweep also clears the numbers that hooks use without a look-up
  // (stack_hints_impl.h).
  //   1. begin_epoch(), then a round.
  //   2. retain() of each number that a user has. Numbers returned after the round need not be
  //      retained.
  //   3. sweep(kReferring) until it is false, then a round.
  //   4. sweep(kReferred) until it is false, then a round.
  //   5. reuse() until it is false.
  // A sweep that stops early may restart with step 1. If the table is cleared and opened between
  // two steps, the sweep is over.
  void begin_epoch();
  // Keeps the entry `id` in this sweep; the sweep then also keeps the entries to which it refers.
  // `id` is a number that a user has, or 0. Lock-free, any context but NMI.
  void retain(uint32_t id);
  // Sweeps about 64 entries; true if there is more to do. Called with interrupts on. Turns
  // interrupts off for one chain at a time: 100 instructions, and about 40 for each entry beyond
  // the first.
  bool sweep(Pass pass);
  // Frees up to 64 swept entries; true if there are more. Interrupts on.
  bool reuse();

  // All numbers of entries are below this.
  uint32_t end() const { return end_.load(std::memory_order_acquire); }

 protected:
  // Bit 1 is set in kinds whose entries refer to other entries.
  enum class Kind : uint8_t { kKernelStack, kUserStack, kPair, kContext, kProgram };
  static constexpr unsigned kKindBits = 3;
  static constexpr size_t kMaxWords = 130;
  static constexpr unsigned kShapeBits = 16;
  static_assert(kMaxWords << kKindBits < 1u << kShapeBits);

  struct Entry {
    std::atomic<Entry*> next;
    uint64_t key;
    uint32_t id;
    std::atomic<uint32_t> stamp;
    uint32_t data[];

    size_t words() const { return words_of(key); }
    static Entry& of(const uint32_t* data) {
      return *reinterpret_cast<Entry*>(reinterpret_cast<uint64_t>(data) - offsetof(Entry, data));
    }
  };
  static_assert(sizeof(Entry) == 24);

  constexpr InternTable() = default;
  // StackTable and ContextTable describe these functions.
  Result<void> open();
  void clear();

  // The key of an entry, which look-ups compare first: hash, number of words, and kind.
  static uint64_t key_of(Kind kind, size_t words, uint64_t hash) {
    const uint64_t shape = words << kKindBits | static_cast<uint64_t>(kind);
    return (hash & ~uint64_t{0} << kShapeBits) | shape;
  }
  static constexpr Kind kind_of(uint64_t key) {
    return static_cast<Kind>(key & ((1u << kKindBits) - 1));
  }
  // The number of words and the kind.
  static constexpr uint16_t shape_of(uint64_t key) { return static_cast<uint16_t>(key); }
  static constexpr size_t words_of(uint64_t key) { return shape_of(key) >> kKindBits; }

  // Returns the number of an entry. Tells the compiler that the number is never 0, which saves a
  // test in the callers.
  [[gnu::always_inline]] static uint32_t id_of(const Entry& entry) {
    if (entry.id == 0) __builtin_unreachable();
    return entry.id;
  }

  // Returns the words of the program that a context refers to. A context's first words are the
  // address of the program's words.
  static const uint32_t* referred_data(const uint32_t* data) {
    const uint32_t* referred;
    __builtin_memcpy(&referred, data, sizeof(referred));
    return referred;
  }

  // Returns the entry with these words if a look-up without a lock finds it, otherwise nullptr.
  [[gnu::always_inline]] const Entry* find_entry(uint64_t key, const uint32_t* data) const {
    const Entry* entry = head(key).load(std::memory_order_acquire);
    for (; entry; entry = entry->next.load(std::memory_order_acquire)) {
      if (entry->key == key && equal(entry->data, data, words_of(key))) {
        const uint32_t epoch = epoch_.load(std::memory_order_relaxed);
        if (entry->stamp.load(std::memory_order_relaxed) == epoch) [[likely]]
          return entry;
        return stamp(const_cast<Entry&>(*entry)) ? entry : nullptr;
      }
    }
    return nullptr;
  }
  // Returns the number of the entry with these words if a look-up without a lock finds it,
  // otherwise 0.
  [[gnu::always_inline]] uint32_t find(uint64_t key, const uint32_t* data) const {
    const Entry* const entry = find_entry(key, data);
    return entry ? id_of(*entry) : 0;
  }
  // An entry whose words are all 0; it is in no table.
  static const Entry no_entry;
  struct Interned {
    uint32_t id;
    bool known;  // the table had the entry before
  };
  // Finds the entry with these words, or adds it; the number is 0 if there is no memory for it. Any
  // context but NMI, interrupts off, after trace_memory_prepare(); takes kInternTable.
  [[gnu::always_inline]] Interned find_or_add(uint64_t key, const uint32_t* data) {
    if (const uint32_t id = find(key, data)) return {id, true};
    return add(key, data);
  }

  // find_or_add() after find() has failed.
  Interned add(uint64_t key, const uint32_t* data);

  const Entry& at(uint32_t id) const {
    const auto* page = static_cast<const char*>(pages_[id / kPlacesPerPage]);
    return *reinterpret_cast<const Entry*>(page + id % kPlacesPerPage * kGranule);
  }
  bool is_open() const { return mask_.load(std::memory_order_acquire) != 0; }
  uint32_t count(Pass pass) const {
    return counts_[static_cast<size_t>(pass)].load(std::memory_order_relaxed);
  }

 private:
  // A place is room for an entry. Its id is the page's number times kPlacesPerPage, plus the
  // place's offset in the page, in granules. Offset 0 is not used, so that no id is 0.
  static constexpr uint32_t kGranule = 8;
  static constexpr uint32_t kPlacesPerPage = kPageSize / kGranule;
  // The granules left in the page that is used up to `end`: 0 if `end` is the end of a page.
  static uint32_t left_in_page(uint32_t end) { return -end % kPlacesPerPage; }
  static uint32_t pages_until(uint32_t end) { return (end + kPlacesPerPage - 1) / kPlacesPerPage; }
  // Granules of the smallest place, which holds an entry without words.
  static constexpr uint32_t kLeast = sizeof(Entry) / kGranule;
  static constexpr uint32_t granules_of(size_t words) {
    return static_cast<uint32_t>((sizeof(Entry) + words * sizeof(uint32_t) + kGranule - 1) /
                                 kGranule);
  }
  static constexpr uint32_t kMost = (sizeof(Entry) + kMaxWords * sizeof(uint32_t)) / kGranule;

  // While an entry is in a chain, its stamp is an epoch. While it is in a list of free or swept
  // entries, its stamp is kDead plus the number of the next entry in the list.
  static constexpr uint32_t kDead = uint32_t{1} << 31;
  // Numbers end here (ids.h), so a table has at most 128 MiB of entries.
  static constexpr uint32_t kMaxPages = (1u << kNumberBits) / kPlacesPerPage;
  static_assert(kMaxPages <= PageDirectory::kMaxPages && 1u << kNumberBits <= kDead);

  using Head = std::atomic<Entry*>;
  static constexpr uint32_t kHeadsPerPage = kPageSize / sizeof(Head);
  struct HeadPage {
    Head heads[kHeadsPerPage];
  };
  // At most two million heads; more entries make the chains longer.
  static constexpr uint32_t kMaxHeadPages = 4096;
  static Entry unsplit;

  static constexpr uint32_t kLocks = 256;
  static_assert(kLocks <= kHeadsPerPage);
  struct Lock : HookLock {
    constexpr Lock() : HookLock(LockRank::kInternTable) {}
  };

  // A list of free places, linked by their stamps: the first place, and how often the list changed.
  struct FreeList {
    uint32_t first, changes;
  };
  static_assert(std::atomic<FreeList>::is_always_lock_free);

  static constexpr Pass pass_of(uint64_t key) {
    return (key & 2) != 0 ? Pass::kReferring : Pass::kReferred;
  }

  // --- Chains.
  static uint32_t hash_of(uint64_t key) { return static_cast<uint32_t>(key >> kShapeBits); }
  Head& head_at(uint32_t index) const {
    HeadPage* const page = heads_[index / kHeadsPerPage].load(std::memory_order_acquire);
    return page->heads[index % kHeadsPerPage];
  }
  uint32_t index_of(uint64_t key) const {
    return hash_of(key) & mask_.load(std::memory_order_acquire);
  }
  Head& head(uint64_t key) const { return head_at(index_of(key)); }
  Lock& lock_of(uint32_t index) { return locks_[index % kLocks]; }
  static uint32_t parent_of(uint32_t index);
  bool has_own_page(uint32_t index) const;
  Head& split_head(uint32_t index);
  void split(uint32_t index);
  void take_head_page(uint32_t index);
  void more_heads(uint32_t index);
  void grow();

  // --- Stamps.
  bool stamp(Entry& entry) const;
  void retain(Entry& entry);
  void retain_referred(const Entry& entry);
  bool kill(Entry& entry);
  uint32_t sweep_chain(uint32_t index, Pass pass);

  // --- Places.
  Entry& place(uint32_t id) const { return const_cast<Entry&>(at(id)); }
  void put_free(uint32_t id, uint32_t granules);
  uint32_t take_free(uint32_t granules);
  uint32_t take_end(uint32_t granules, uint32_t* missing);
  uint32_t take_larger(uint32_t granules);
  Interned add_locked(uint64_t key, const uint32_t* data, bool larger, uint32_t* missing);
  Interned add_in_page(uint64_t key, const uint32_t* data, uint32_t missing);
  std::atomic<uint32_t>& count_of(uint64_t key) {
    return counts_[static_cast<size_t>(pass_of(key))];
  }
  uint32_t entries() const { return count(Pass::kReferring) + count(Pass::kReferred); }

  // Most look-ups end in one full compare. Comparing two words at a time costs a fraction of
  // memcmp.
  [[gnu::always_inline]] static bool equal(const uint32_t* a, const uint32_t* b, size_t words) {
    const auto pair = [](const uint32_t* at) {
      uint64_t two;
      __builtin_memcpy(&two, at, sizeof(two));
      return two;
    };
    for (size_t left = (words + 1) / 2 * 2; left != 0; left -= 2) {
      if (pair(a + left - 2) != pair(b + left - 2)) return false;
    }
    return true;
  }

  std::array<std::atomic<HeadPage*>, kMaxHeadPages> heads_ = {};
  std::atomic<uint32_t> mask_{0};   // number of heads minus one; hash & mask_ is a head's index
  std::atomic<uint32_t> epoch_{1};  // below kDead, not 0
  std::atomic<uint32_t> head_pages_{0};  // pages of heads, without aliases
  std::atomic<bool> growing_{false};     // a CPU is in grow()
  std::array<Lock, kLocks> locks_;

  PageDirectory pages_;
  std::atomic<uint32_t> end_{0};  // where the unused part of the last page begins
  std::array<std::atomic<FreeList>, kMost + 1> free_ = {};  // free places by size in granules
  std::atomic<uint32_t> free_granules_{0};                  // granules in all lists of `free_`
  std::array<std::atomic<uint32_t>, 2> counts_ = {};        // entries of each Pass

  // Used only by the sweep.
  uint32_t swept_ = 0;  // index of the next head that the present pass visits or skips
  uint32_t limbo_ = 0;  // first of the unlinked entries, which their stamps link; 0: none
  std::atomic<uint32_t> survivors_{0};
  std::atomic<bool> refused_{false};  // Fill::refused
};
