// Visitors for providers and walkers. ReachingVisitor forwards all reports of providers and walkers
// to a reached. The visitor of for_each_root() reports the ranges of root words.
#pragma once

#include "arch/x86_64/paging.h"
#include "arch/x86_64/table_walk.h"
#include "pages.h"
#include "reach/index.h"
#include "reach/ranges.h"
#include "reach/reach.h"
#include "reach/roots_impl.h"

namespace reach {

template <typename Reached>
class ReachingVisitor final : public ReachVisitor {
 public:
  explicit ReachingVisitor(Reached& reached) : reached_(reached), index_(reached.index()) {}

  void object(const void* address) override { reached_.word(reinterpret_cast<uint64_t>(address)); }

  void words(const void* from, const void* to) override {
    reached_.words(static_cast<const uint64_t*>(from), static_cast<const uint64_t*>(to));
  }

  void stack(const TaskHead&, uint64_t from, uint64_t to) override {
    const auto* const end = reinterpret_cast<const uint64_t*>(to);
    for (const auto* word = reinterpret_cast<const uint64_t*>(from); word < end; word++) {
      const auto address = reinterpret_cast<uint64_t>(word);
      reached_.word_at(address, *word);
      const uint64_t page = *word % kPageSize == 0 ? *word : page_of_user_entry(*word).value;
      if (page != 0 && page < kDirectMapBase && is_whole_pages(find({page})))
        reached_.word_at(address, kDirectMapBase + page);
    }
  }

  void page(PhysAddr page) override {
    const Object object = find(page);
    if (!object) return;
    object.state() |= kOpaque;
    reached_.add(object);
  }

  // A stale entry may lead to a page that is no page table any more. Such a page is rejected. A
  // page of a slab is rejected because it is not an object of exactly one page; a page of a program
  // is rejected because it has mappings.
  bool table(PhysAddr page) override {
    const Object object = find(page);
    if (!is_whole_pages(object) || object.size() != kPageSize) return false;
    uint8_t& state = object.state();
    if (!(state & kLive) || (state & kWalked)) return false;
    if (page_of(page)->mappings.load(std::memory_order_relaxed) != 0) return false;
    state |= kWalked | kOpaque;
    reached_.add(object);
    return true;
  }

  void hide(const void* address) override {
    if (const Object object = index_.find(reinterpret_cast<uint64_t>(address)))
      object.state() |= kOpaque;
  }

 private:
  Object find(PhysAddr page) const { return index_.find(kDirectMapBase + page.value); }
  // True for an object of whole pages. The kernel stores physical addresses of such objects only.
  static bool is_whole_pages(const Object& object) {
    return object && object.size() % kPageSize == 0 && object.address() % kPageSize == 0;
  }

  Reached& reached_;
  const Index& index_;
};

// Calls root(owner, from, to) for each range of root words (ranges.h). All CPUs are stopped.
template <typename Root>
void for_each_root(Root root) {
  class RootVisitor final : public ReachVisitor {
   public:
    explicit RootVisitor(Root& root) : root_(root) {}
    void object(const void*) override {}
    void words(const void* from, const void* to) override {
      root_(RangeOwner::of_static(), reinterpret_cast<uint64_t>(from),
            reinterpret_cast<uint64_t>(to));
    }
    void stack(const TaskHead& task, uint64_t from, uint64_t to) override {
      root_(RangeOwner::of_stack(reinterpret_cast<uint64_t>(&task)), from, to);
    }
    void page(PhysAddr) override {}
    bool table(PhysAddr) override { return false; }
    void hide(const void*) override {}

   private:
    Root& root_;
  } visitor(root);
  visit_roots(visitor);
}

}  // namespace reach
