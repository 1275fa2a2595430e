// The pool of boundary tags: see arena.cc.
#include <atomic>
#include <utility>

#include "arch/x86_64/interrupts.h"
#include "arena_impl.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/not_roots.h"
#include "lib/units.h"

namespace arena_impl {
namespace {

// The free tags, as a list of runs. A run is an array of tags; the field `size` of its first tag is
// the number of tags in the run. A returned tag is a run of one tag. A new page is one run, so that
// no operation has to touch all tags of the page.
class TagPool {
 public:
  // Adds a run of `count` tags.
  void add(Segment* tags, size_t count) EXCLUDES(lock_) {
    Guard guard(lock_);
    push(tags, count);
  }
  void give(Segment* tag) { add(tag, 1); }
  // Takes `count` tags, linked by list_next; nullptr if fewer than kReserve tags would be left.
  Segment* take(size_t count) EXCLUDES(lock_) {
    Guard guard(lock_);
    if (free_count_ < kReserve + count) return nullptr;
    Segment* tags = nullptr;
    for (size_t i = 0; i < count; i++) {
      Segment* const tag = pop();
      tag->list_next = tags;
      tags = tag;
    }
    return tags;
  }
  // Takes a tag; if no other tag is left, takes one of the reserve. The caller keeps interrupts off
  // until it has filled the pool.
  Segment* take_reserved() EXCLUDES(lock_) {
    Guard guard(lock_);
    ASSERT(free_count_ > 0);
    return pop();
  }

  // True if one of the next few operations will have to fill the pool. Only a hint, because it
  // reads without the lock.
  bool low() const { return __atomic_load_n(&free_count_, __ATOMIC_RELAXED) < kReserve + kSoon; }

  static constexpr size_t kReserve = kMaxCpus;

 private:
  static constexpr size_t kSoon = 8;  // tags that a few operations need

  void push(Segment* run, size_t count) REQUIRES(lock_) {
    run->size = count;
    run->list_next = free_;
    free_ = run;
    set_count(free_count_ + count);
  }
  // Takes the last tag of the first run.
  Segment* pop() REQUIRES(lock_) {
    Segment* const run = free_;
    const size_t left = --run->size;
    if (left == 0) free_ = run->list_next;
    set_count(free_count_ - 1);
    return run + left;
  }
  void set_count(size_t count) REQUIRES(lock_) {
    __atomic_store_n(&free_count_, count, __ATOMIC_RELAXED);
  }

  Spinlock lock_{LockRank::kArenaTags};
  Segment* free_ GUARDED_BY(lock_) = nullptr;
  size_t free_count_ GUARDED_BY(lock_) = 0;  // also read without the lock, atomically
};

constinit TagPool tag_pool;
constinit std::atomic<uint64_t> tag_pages{0};
NOT_ROOTS constinit std::array<Segment, TagPool::kReserve + 64> first_tags{};

// Turns a page of base_arena into tags. False if base_arena has no free page.
bool fill_tag_pool() EXCLUDES(base_arena->lock()) {
  InterruptsOff off;
  Segment* page = nullptr;
  {
    Tags tags;
    tags.put(tag_pool.take_reserved());
    Guard guard(base_arena->lock());
    Segment* const segment = find_free(*base_arena, kPageSize);
    if (segment) {
      allocate_from(*base_arena, *segment, kPageSize, tags);
      page = reinterpret_cast<Segment*>(segment->start);
    }
  }
  if (!page) return false;
  count_span(*base_arena, kPageSize);
  tag_pages.fetch_add(1, std::memory_order_relaxed);
  tag_pool.add(page, kPageSize / sizeof(Segment));
  return true;
}

}  // namespace

Tags::~Tags() {
  while (tags_) tag_pool.give(pop());
}

bool Tags::reserve(size_t count) {
  while (!(tags_ = tag_pool.take(count))) {
    if (!fill_tag_pool()) return false;
  }
  return true;
}

bool fill_tags_early() {
  return tag_pool.low() && fill_tag_pool();
}

Segment* Tags::make(uintptr_t start, size_t size, SegmentKind kind) {
  ASSERT(tags_);
  Segment* const tag = pop();
  *tag = {start, size, kind, nullptr, nullptr, nullptr, nullptr};
  return tag;
}

void Tags::put(Segment* tag) {
  tag->list_next = tags_;
  tags_ = tag;
}

Segment* Tags::pop() {
  return std::exchange(tags_, tags_->list_next);
}

uint64_t tag_bytes() {
  return tag_pages.load(std::memory_order_relaxed) * kPageSize;
}

void tags_init() {
  tag_pool.add(first_tags.data(), first_tags.size());
}

}  // namespace arena_impl
