#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "arena.h"
#include "cpus.h"
#include "slab.h"
#include "slab_os.h"

namespace {

constexpr std::array<int, 3> kPolicies = {KM_ATOMIC, KM_BESTFIT, KM_NEXTFIT};

struct arena_stats stats_of(arena* arena) {
  struct arena_stats stats;
  arena_stats(arena, &stats);
  return stats;
}

struct Request {
  size_t size = 1, align = 1, phase = 0, nocross = 0;
  uintptr_t min = 0, max = UINTPTR_MAX;

  uintptr_t from(arena* arena, int flags) const {
    return reinterpret_cast<uintptr_t>(
        arena_xalloc(arena, size, align, phase, nocross, min, max, flags));
  }
  // Returns true if arena_xalloc() may return `address` for this request. `rounded` is `size`,
  // rounded up to whole quanta, in bytes.
  bool allows(uintptr_t address, size_t rounded) const {
    return address % align == phase && address >= min && address + rounded - 1 <= max &&
           (nocross == 0 || address / nocross == (address + rounded - 1) / nocross);
  }
};
std::ostream& operator<<(std::ostream& out, const Request& request) {
  return out << "size " << request.size << " align " << request.align << " phase " << request.phase
             << " nocross " << request.nocross << " min " << request.min << " max " << request.max;
}

// An arena of one span, and a model of this arena. The model knows which quanta are allocated. It
// tries all addresses to find the results that arena_xalloc() may return.
class Shadow {
 public:
  Shadow(uintptr_t base, size_t quanta, size_t quantum)
      : base_(base),
        quantum_(quantum),
        taken_(quanta),
        arena_(arena_create("shadow", base, quanta * quantum, quantum, nullptr, nullptr, nullptr, 0,
                            KM_SLEEP)) {}
  ~Shadow() {
    while (!live_.empty()) free(live_.begin()->first);
    EXPECT_EQ(stats_of(arena_).segments, 2u);
    arena_destroy(arena_);
  }
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  // Calls arena_xalloc() and compares its result with the model. Returns the allocated address, or
  // 0 if the allocation failed.
  uintptr_t expect(const Request& request, int policy) {
    const size_t rounded = (request.size + quantum_ - 1) / quantum_ * quantum_;
    const std::set<uintptr_t> fits = all_fits(request, rounded);
    const struct arena_stats before = stats_of(arena_);
    const uintptr_t address = request.from(arena_, policy);
    if (address == 0) {
      EXPECT_TRUE(fits.empty()) << request << " policy " << policy << " would fit at "
                                << *fits.begin();
      EXPECT_EQ(stats_of(arena_).failures, before.failures + 1);
      return 0;
    }
    EXPECT_TRUE(fits.contains(address)) << request << " policy " << policy << " gives " << address;
    EXPECT_EQ(stats_of(arena_).allocated_bytes, before.allocated_bytes + rounded);
    if (policy == KM_BESTFIT) {
      size_t smallest = SIZE_MAX;
      for (uintptr_t fit : fits) smallest = std::min(smallest, gap_at(fit));
      EXPECT_EQ(gap_at(address), smallest) << request;
    }
    if (policy == KM_NEXTFIT) {
      const auto next = fits.lower_bound(rotor_);
      EXPECT_EQ(address, next == fits.end() ? *fits.begin() : *next)
          << request << " rotor " << rotor_;
      rotor_ = address + rounded;
    }
    mark(address, rounded, true);
    live_[address] = request.size;
    return address;
  }
  void free(uintptr_t address) {
    arena_xfree(arena_, reinterpret_cast<void*>(address), live_[address]);
    mark(address, (live_[address] + quantum_ - 1) / quantum_ * quantum_, false);
    live_.erase(address);
  }
  arena* raw() { return arena_; }
  const std::map<uintptr_t, size_t>& live() const { return live_; }
  uintptr_t base() const { return base_; }
  size_t bytes() const { return taken_.size() * quantum_; }

 private:
  size_t index(uintptr_t address) const { return (address - base_) / quantum_; }
  void mark(uintptr_t address, size_t size, bool value) {
    for (size_t i = 0; i < size / quantum_; i++) taken_[index(address) + i] = value;
  }
  std::set<uintptr_t> all_fits(const Request& request, size_t rounded) const {
    std::set<uintptr_t> fits;
    size_t run = 0;
    for (size_t i = 0; i < taken_.size(); i++) {
      run = taken_[i] ? 0 : run + quantum_;
      if (run < rounded) continue;
      const uintptr_t address = base_ + (i + 1) * quantum_ - rounded;
      if (request.allows(address, rounded)) fits.insert(address);
    }
    return fits;
  }
  // Returns the size of the gap that contains `address`, in quanta.
  size_t gap_at(uintptr_t address) const {
    size_t first = index(address), end = first;
    while (first > 0 && !taken_[first - 1]) first--;
    while (end < taken_.size() && !taken_[end]) end++;
    return end - first;
  }

  const uintptr_t base_;
  const size_t quantum_;
  std::vector<bool> taken_;
  uintptr_t rotor_ = 0;
  std::map<uintptr_t, size_t> live_;
  arena* const arena_;
};

// ---- Every state of a small arena.

class XallocSmall : public testing::TestWithParam<std::pair<uintptr_t, size_t>> {};

TEST_P(XallocSmall, FindsAFitWheneverThereIsOne) {
  constexpr size_t kQuanta = 8;
  const auto [base, quantum] = GetParam();
  std::mt19937_64 random(base);
  for (unsigned state = 0; state < 1 << kQuanta; state++) {
    Shadow shadow(base, kQuanta, quantum);
    for (size_t i = 0; i < kQuanta; i++) {
      const uintptr_t at = base + i * quantum;
      // min and max are the first and the last byte of quantum i, so only `at` fits.
      if (state >> i & 1) {
        ASSERT_EQ(shadow.expect({1, quantum, 0, 0, at, at + quantum - 1}, KM_ATOMIC), at);
      }
    }
    for (size_t size = quantum; size <= kQuanta * quantum; size += quantum) {
      for (size_t align = quantum; align <= 16 * quantum; align *= 2) {
        for (size_t phase = 0; phase < align; phase += quantum) {
          for (size_t nocross : {size_t{0}, quantum, 4 * quantum, 16 * quantum}) {
            Request request{size, align, phase, nocross};
            const size_t first = random() % (kQuanta * quantum),
                         last = random() % (kQuanta * quantum);
            if (random() % 2) request.min = base + first;
            if (random() % 2) request.max = base + last;
            const uintptr_t address =
                shadow.expect(request, kPolicies[random() % kPolicies.size()]);
            if (address) shadow.free(address);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Places, XallocSmall,
                         testing::Values(std::pair{uintptr_t{16}, size_t{1}},
                                         std::pair{uintptr_t{21}, size_t{1}},
                                         std::pair{uintptr_t{0x3000}, size_t{4096}}));

// ---- A larger arena, with all policies mixed.

class XallocModel : public testing::TestWithParam<size_t> {};

TEST_P(XallocModel, AgreesWithAShadow) {
  const size_t quantum = GetParam();
  Shadow shadow(0x1230 * quantum, 300, quantum);
  std::mt19937_64 random(quantum + 1);
  for (int i = 0; i < 12'000; i++) {
    if (random() % 100 < (i / 1'500 % 2 ? 42u : 56u)) {
      Request request;
      request.size = 1 + random() % (quantum * (random() % 4 ? 8 : 60));
      request.align = quantum << random() % (random() % 3 ? 1 : 7);
      request.phase = random() % request.align / quantum * quantum;
      if (random() % 3 == 0) request.nocross = quantum << random() % 7;
      if (random() % 4 == 0) request.min = shadow.base() + random() % shadow.bytes();
      if (random() % 4 == 0) request.max = shadow.base() + random() % shadow.bytes();
      shadow.expect(request, kPolicies[random() % kPolicies.size()]);
    } else if (!shadow.live().empty()) {
      shadow.free(std::next(shadow.live().begin(), random() % shadow.live().size())->first);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(stats_of(shadow.raw()).failures, 100u);
}
INSTANTIATE_TEST_SUITE_P(Quanta, XallocModel, testing::Values(1, 16, 4096));

// ---- Policies.

constexpr uintptr_t kBase = 0x10000;

TEST(Xalloc, NextFitGoesRoundAllBeforeItComesBack) {
  arena* const ids = arena_create("ids", kBase, 100, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  void* const pinned = arena_xalloc(ids, 10, 1, 0, 0, kBase + 40, kBase + 49, KM_ATOMIC);
  for (int round = 0; round < 3; round++) {
    for (uintptr_t id = kBase; id < kBase + 100; id++) {
      if (id == kBase + 40) id += 10;
      // arena_alloc() supports next fit, too.
      void* const made = round % 2 ? arena_alloc(ids, 1, KM_NEXTFIT)
                                   : arena_xalloc(ids, 1, 0, 0, 0, 0, UINTPTR_MAX, KM_NEXTFIT);
      ASSERT_EQ(made, reinterpret_cast<void*>(id));
      arena_free(ids, made, 1);
    }
  }
  arena_xfree(ids, pinned, 10);
  arena_destroy(ids);
}

TEST(Xalloc, NextFitTakesWhatLiesAcrossItsRotor) {
  arena* const ids = arena_create("ids", kBase, 100, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  arena_free(ids, arena_alloc(ids, 50, KM_NEXTFIT), 50);
  void* const across = arena_alloc(ids, 80, KM_NEXTFIT);
  EXPECT_EQ(across, reinterpret_cast<void*>(kBase));
  arena_free(ids, across, 80);
  arena_destroy(ids);
}

TEST(Xalloc, NextFitGoesThroughAllSpans) {
  arena* const ids = arena_create("ids", 0, 0, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  for (uintptr_t span = 0; span < 3; span++)
    ASSERT_EQ(arena_add(ids, kBase + span * 100, 10, KM_SLEEP), 0);
  std::vector<uintptr_t> first, second;
  for (int i = 0; i < 60; i++) {
    const auto id = reinterpret_cast<uintptr_t>(arena_alloc(ids, 1, KM_NEXTFIT));
    (i < 30 ? first : second).push_back(id);
    arena_free(ids, reinterpret_cast<void*>(id), 1);
  }
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 30u);
  EXPECT_EQ(first, second);
  arena_destroy(ids);
}

TEST(Xalloc, BestFitTakesTheSmallestGap) {
  arena* const arena = arena_create("gaps", kBase, 100, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  // The gaps between the walls have 40, 13, 10, 14 and 19 quanta. The gaps of 13, 10 and 14 quanta
  // are on one free list.
  std::vector<void*> walls;
  for (uintptr_t at : {40, 54, 65, 80}) {
    walls.push_back(arena_xalloc(arena, 1, 1, 0, 0, kBase + at, kBase + at, KM_ATOMIC));
    ASSERT_NE(walls.back(), nullptr);
  }
  void* const nine = arena_alloc(arena, 9, KM_BESTFIT);
  EXPECT_EQ(nine, reinterpret_cast<void*>(kBase + 55));
  void* const eleven = arena_alloc(arena, 11, KM_BESTFIT);
  EXPECT_EQ(eleven, reinterpret_cast<void*>(kBase + 41));
  void* const fifteen = arena_alloc(arena, 15, KM_BESTFIT);
  EXPECT_EQ(fifteen, reinterpret_cast<void*>(kBase + 81));
  arena_free(arena, nine, 9);
  arena_free(arena, eleven, 11);
  arena_free(arena, fifteen, 15);
  for (void* wall : walls) arena_xfree(arena, wall, 1);
  arena_destroy(arena);
}

TEST(Xalloc, PassesQuantumCachesBy) {
  arena* const ids =
      arena_create("cached", kBase, 10'000, 1, nullptr, nullptr, nullptr, 8, KM_SLEEP);
  const uint64_t live = stats_of(ids).live;
  void* const made = arena_xalloc(ids, 4, 4, 0, 0, 0, UINTPTR_MAX, KM_ATOMIC);
  EXPECT_EQ(stats_of(ids).live, live + 1) << "a segment of its own, not an object of a slab";
  EXPECT_EQ(stats_of(ids).allocated_bytes, 4u);
  arena_xfree(ids, made, 4);
  EXPECT_EQ(stats_of(ids).live, live);
  EXPECT_EQ(stats_of(ids).allocated_bytes, 0u);
  arena_destroy(ids);
}

// ---- Import.

// The state of import() and give_back(). `out` is the number of imported bytes that were not given
// back yet. `imports` counts the successful imports. If a test sets `fails`, import() fails.
struct Source {
  uint64_t out = 0, imports = 0;
  bool fails = false;
} source_state;

void* import(arena* source, size_t size, int flags) {
  if (source_state.fails) return nullptr;
  void* const memory = arena_alloc(source, size, flags);
  if (memory) source_state.out += size, source_state.imports++;
  return memory;
}
void give_back(arena* source, void* base, size_t size) {
  source_state.out -= size;
  arena_free(source, base, size);
}

TEST(Xalloc, ImportsWhatItsConstraintsNeed) {
  constexpr size_t kQuantum = 64, kSourceQuantum = 4096;
  source_state = {};
  arena* const source = arena_create("source", 0x1235'3000, 4 << 20, kSourceQuantum, nullptr,
                                     nullptr, nullptr, 0, KM_SLEEP);
  arena* const arena =
      arena_create("importer", 0, 0, kQuantum, import, give_back, source, 0, KM_SLEEP);
  std::map<uintptr_t, size_t> live;
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; i++) {
    source_state.fails = i / 2'000 % 3 == 2;
    if (random() % 100 < (i / 3'000 % 2 ? 40u : 58u)) {
      Request request;
      request.size = 1 + random() % (random() % 8 ? 500 : 20'000);
      request.align = kQuantum << random() % 11;
      request.phase = random() % request.align / kQuantum * kQuantum;
      if (random() % 3 == 0) request.nocross = kQuantum << random() % 12;
      const size_t rounded = (request.size + kQuantum - 1) / kQuantum * kQuantum;
      const bool room = stats_of(source).allocated_bytes < (1 << 20);
      const uintptr_t address = request.from(arena, kPolicies[random() % kPolicies.size()]);
      if (address) {
        ASSERT_TRUE(request.allows(address, rounded)) << request << " gives " << address;
        const auto next = live.lower_bound(address);
        ASSERT_TRUE(next == live.end() || address + rounded <= next->first);
        ASSERT_TRUE(next == live.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= address);
        live[address] = request.size;
      } else if (!source_state.fails && room) {
        // The source has room, so the request may fail only if no address satisfies it: from each
        // address with this phase, the allocation would cross a multiple of `nocross`.
        ASSERT_TRUE(request.nocross &&
                    (request.phase % request.nocross) + rounded > request.nocross)
            << request;
      }
    } else if (!live.empty()) {
      const auto victim = std::next(live.begin(), random() % live.size());
      arena_xfree(arena, reinterpret_cast<void*>(victim->first), victim->second);
      live.erase(victim);
    }
    ASSERT_EQ(stats_of(arena).imported_bytes, source_state.out);
    ASSERT_EQ(stats_of(arena).live, live.size());
  }
  EXPECT_GT(source_state.imports, 100u);
  for (const auto& [address, size] : live)
    arena_xfree(arena, reinterpret_cast<void*>(address), size);
  EXPECT_EQ(source_state.out, 0u);
  EXPECT_EQ(stats_of(arena).segments, 0u);

  // All addresses of the source are above window.max. So the arena imports a span that does not
  // satisfy the request, and must return this span to the source at once.
  source_state = {};
  Request window{.size = 64, .align = 64, .max = 0xffff};
  EXPECT_EQ(window.from(arena, KM_ATOMIC), 0u);
  EXPECT_EQ(source_state.imports, 1u);
  EXPECT_EQ(source_state.out, 0u);
  window.max = 0x2000'0000;
  const uintptr_t inside = window.from(arena, KM_ATOMIC);
  EXPECT_NE(inside, 0u);
  arena_xfree(arena, reinterpret_cast<void*>(inside), 64);
  arena_destroy(arena);
  arena_destroy(source);
}

TEST(Xalloc, NextFitOutlivesTheSpanOfItsRotor) {
  source_state = {};
  arena* const source =
      arena_create("source", kBase, 1 << 20, 4096, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  arena* const arena = arena_create("importer", 0, 0, 64, import, give_back, source, 0, KM_SLEEP);
  std::vector<void*> kept;
  for (int i = 0; i < 200; i++) {
    void* const made = arena_xalloc(arena, 2048, 64, 0, 0, 0, UINTPTR_MAX, KM_NEXTFIT);
    ASSERT_NE(made, nullptr);
    if (i % 3 == 0)
      kept.push_back(made);
    else
      arena_xfree(arena, made, 2048);
    if (kept.size() > 8) {
      arena_xfree(arena, kept.front(), 2048);
      kept.erase(kept.begin());
    }
  }
  for (void* made : kept) arena_xfree(arena, made, 2048);
  EXPECT_EQ(source_state.out, 0u);
  arena_destroy(arena);
  arena_destroy(source);
}

TEST(Xalloc, NextFitGoesOnBehindASpanThatWasReturned) {
  source_state = {};
  arena* const source =
      arena_create("source", kBase, 1 << 20, 4096, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  arena* const arena = arena_create("importer", 0, 0, 64, import, give_back, source, 0, KM_SLEEP);
  // Three spans, each allocated in two halves. The arena's list of tags begins with the span that
  // was imported last. So the order is: halves 4 and 5, 2 and 3, 0 and 1.
  std::array<void*, 6> halves;
  for (void*& half : halves) ASSERT_NE(half = arena_alloc(arena, 2048, KM_NEXTFIT), nullptr);
  arena_free(arena, halves[2], 2048);
  ASSERT_EQ(arena_alloc(arena, 2048, KM_NEXTFIT), halves[2]);
  arena_free(arena, halves[0], 2048);
  arena_free(arena, halves[5], 2048);
  arena_free(arena, halves[2], 2048);
  arena_free(arena, halves[3], 2048);
  EXPECT_EQ(source_state.out, 2u * 4096);
  EXPECT_EQ(arena_alloc(arena, 2048, KM_NEXTFIT), halves[0]);
  EXPECT_EQ(arena_alloc(arena, 2048, KM_NEXTFIT), halves[5]);
  for (int i : {0, 1, 4, 5}) arena_free(arena, halves[i], 2048);
  EXPECT_EQ(source_state.out, 0u);
  arena_destroy(arena);
  arena_destroy(source);
}

// ---- The last address, and exhausted memory.

TEST(Xalloc, WorksUpToTheLastAddress) {
  const uintptr_t base = UINTPTR_MAX - 0xfff;
  arena* const arena =
      arena_create("top", base, 0x1000, 16, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  for (int policy : kPolicies) {
    EXPECT_EQ((Request{.size = 16, .align = 16, .min = UINTPTR_MAX - 15}).from(arena, policy),
              UINTPTR_MAX - 15);
    EXPECT_EQ((Request{.size = 32, .align = 16, .min = UINTPTR_MAX - 15}).from(arena, policy), 0u);
    EXPECT_EQ((Request{.size = 16, .align = size_t{1} << 63}).from(arena, policy), 0u);
    EXPECT_EQ((Request{.size = 0x1000, .align = 16, .nocross = 0x800}).from(arena, policy), 0u);
    EXPECT_EQ((Request{.size = SIZE_MAX, .align = 16}).from(arena, policy), 0u);
    EXPECT_EQ((Request{.size = SIZE_MAX / 2, .align = 16}).from(arena, policy), 0u);
    EXPECT_EQ((Request{.size = 0, .align = 16}).from(arena, policy), 0u);
    EXPECT_EQ(
        (Request{.size = 16, .align = 16, .min = base + 64, .max = base + 32}).from(arena, policy),
        0u);
    arena_xfree(arena, reinterpret_cast<void*>(UINTPTR_MAX - 15), 16);
  }
  EXPECT_EQ(stats_of(arena).segments, 2u);
  arena_destroy(arena);
}

TEST(Xalloc, WithoutMemoryItFailsAndCounts) {
  void* const large = arena_xalloc(base_arena, 2 << 20, 2 << 20, 0, 0, 0, UINTPTR_MAX, KM_ATOMIC);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % (2 << 20), 0u);
  ASSERT_NE(large, nullptr);
  arena_xfree(base_arena, large, 2 << 20);
  std::vector<void*> pages;
  while (void* const page =
             arena_xalloc(base_arena, 4096, 8192, 4096, 0, 0, UINTPTR_MAX, KM_ATOMIC))
    pages.push_back(page);
  const uint64_t failures = stats_of(base_arena).failures;
  EXPECT_GT(failures, 0u);
  kmem_reap();  // gives back the idle memory of all caches
  std::vector<void*> others;
  while (void* const page = arena_alloc(base_arena, 4096, KM_ATOMIC)) others.push_back(page);
  EXPECT_GT(others.size(), pages.size() * 9 / 10);
  EXPECT_EQ(arena_xalloc(base_arena, 4096, 0, 0, 0, 0, UINTPTR_MAX, KM_SLEEP), nullptr);
  EXPECT_GT(stats_of(base_arena).failures, failures);
  for (void* page : others) arena_free(base_arena, page, 4096);
  for (void* page : pages) arena_xfree(base_arena, page, 4096);
}

// ---- Several CPUs and interrupts.

constexpr size_t kShared = 1 << 12;
arena* shared_arena;
// For each slot: an allocation, as size << 16 | (address - kBase + 1), or 0.
std::array<std::atomic<uint32_t>, 256> slots;
std::array<std::atomic<bool>, kShared> taken;  // for each quantum: is it allocated?
std::atomic<int> broken;                       // number of results that break a rule

void release(uint32_t packed) {
  if (!packed) return;
  const size_t offset = (packed & 0xffff) - 1, size = packed >> 16;
  for (size_t i = 0; i < size; i++) taken[offset + i] = false;
  arena_xfree(shared_arena, reinterpret_cast<void*>(kBase + offset), size);
}
uint32_t obtain(std::minstd_rand& random) {
  Request request{.size = 1 + random() % 12, .align = size_t{1} << random() % 5};
  if (random() % 2) request.nocross = 16;
  const uintptr_t address = request.from(shared_arena, kPolicies[random() % kPolicies.size()]);
  if (!address) return 0;
  if (!request.allows(address, request.size)) broken++;
  for (size_t i = 0; i < request.size; i++)
    if (taken[address - kBase + i].exchange(true)) broken++;
  return static_cast<uint32_t>(request.size << 16 | (address - kBase + 1));
}
void step(std::minstd_rand& random) {
  release(slots[random() % slots.size()].exchange(random() % 3 ? obtain(random) : 0));
}

TEST(Xalloc, CpusAndInterruptsShareAnArena) {
  shared_arena = arena_create("shared", kBase, kShared, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  host::run_cpus(
      4,
      [](unsigned cpu) {
        std::minstd_rand random(cpu + 1);
        for (int i = 0; i < 8'000; i++) step(random);
      },
      [] {
        thread_local std::minstd_rand random(host_cpu.id + 100);
        for (int i = 0; i < 4; i++) step(random);
      });
  for (auto& slot : slots) release(slot.exchange(0));
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(stats_of(shared_arena).segments, 2u) << "all has merged into one";
  arena_destroy(shared_arena);
}

// ---- Misuse.

TEST(XallocDeathTest, ConstraintsThatAreWrongInThemselves) {
  arena* const arena =
      arena_create("strict", kBase, 0x1000, 16, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  EXPECT_DEATH((Request{.size = 16, .align = 48}).from(arena, KM_ATOMIC),
               "panic: arena strict: alignment 0x30");
  EXPECT_DEATH((Request{.size = 16, .align = 3}).from(arena, KM_ATOMIC),
               "panic: arena strict: alignment 0x3");
  EXPECT_DEATH((Request{.size = 16, .align = 32, .phase = 32}).from(arena, KM_ATOMIC),
               "panic: arena strict: phase");
  EXPECT_DEATH((Request{.size = 16, .align = 32, .phase = 8}).from(arena, KM_ATOMIC),
               "panic: arena strict: phase");
  EXPECT_DEATH((Request{.size = 16, .align = 16, .nocross = 48}).from(arena, KM_ATOMIC),
               "panic: arena strict: nocross 0x30");
  EXPECT_DEATH((Request{.size = 16, .align = 16}).from(arena, KM_BESTFIT | KM_NEXTFIT),
               "panic: arena strict: two policies");
  void* const made = arena_xalloc(arena, 32, 0, 0, 0, 0, UINTPTR_MAX, KM_ATOMIC);
  EXPECT_DEATH(arena_xfree(arena, made, 16), "panic: arena strict: .* with size 16, but has 32");
  EXPECT_DEATH(arena_xfree(arena, static_cast<char*>(made) + 16, 16),
               "panic: arena strict: .* is not allocated");
  arena_xfree(arena, made, 32);
  arena_destroy(arena);
}

}  // namespace
