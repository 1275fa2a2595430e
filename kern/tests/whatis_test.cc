// Answers about an address: its description, its holders, and the path to it (reach/whatis.h).
//
// The stack of the asking task is no root here, so a test may keep the addresses of its objects in
// local variables.
#include <array>
#include <atomic>
#include <cstdarg>
#include <string_view>

#include "arch/x86_64/paging.h"
#include "core/boot.h"
#include "core/errstr.h"
#include "core/ktest.h"
#include "drivers/dev/mem_whatis.h"
#include "intern/trace_memory.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "pages.h"
#include "reach/whatis.h"
#include "slab_walk.h"
#include "tests/cache_stats.h"
#include "tests/failing.h"
#include "tests/reach_looks.h"
#include "tests/team.h"

namespace {

class Answer {
 public:
  explicit Answer(uint64_t address) : address_(address) {
    Result<WhatisAnswer*> made = whatis_answer_make(address);
    EXPECT(made.ok());
    if (made) answer_ = *made;
    EXPECT(has("0x%lx is ", address) && text().starts_with("0x"));
    EXPECT(text().ends_with("\n"));
  }
  explicit Answer(const void* address) : Answer(reinterpret_cast<uint64_t>(address)) {}
  ~Answer() {
    if (ktest_failures() > failures_before_) ktest_note(text());
    if (answer_) whatis_answer_free(answer_);
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  std::string_view text() const { return answer_ ? whatis_answer_text(answer_) : ""; }
  bool has(const char* pattern, ...) const __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, pattern);
    const bool found = text().find(formatted(pattern, arguments)) != std::string_view::npos;
    va_end(arguments);
    return found;
  }
  // True if the first line is the address, " is ", and the formatted pattern.
  bool is(const char* pattern, ...) const __attribute__((format(printf, 2, 3))) {
    char first[64];
    format(first, sizeof(first), "0x%lx is ", address_);
    std::string_view rest = text();
    if (!rest.starts_with(first)) return false;
    rest.remove_prefix(std::string_view(first).size());
    va_list arguments;
    va_start(arguments, pattern);
    const bool same = rest.substr(0, rest.find('\n')) == formatted(pattern, arguments);
    va_end(arguments);
    return same;
  }
  unsigned count(std::string_view words) const {
    unsigned found = 0;
    for (size_t at = 0; (at = text().find(words, at)) != std::string_view::npos; at++) found++;
    return found;
  }

 private:
  std::string_view formatted(const char* pattern, va_list arguments) const {
    vformat(buffer_, sizeof(buffer_), pattern, arguments);
    return buffer_;
  }
  const uint64_t address_;
  const unsigned failures_before_ = ktest_failures();
  mutable char buffer_[1024];
  WhatisAnswer* answer_ = nullptr;
};

struct Node {
  Node* next[8];
};
uint64_t number(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

class TestCache {
 public:
  explicit TestCache(size_t size)
      : cache_(kmem_cache_create("whatis_test", size, 0, 0, nullptr, nullptr, nullptr, nullptr)) {}
  ~TestCache() { kmem_cache_destroy(cache_); }
  operator kmem_cache*() const { return cache_; }
  Node* make() const {
    auto* const node = static_cast<Node*>(kmem_cache_alloc(cache_, KM_SLEEP));
    *node = {};
    return node;
  }
  // Makes nodes that no root leads to. Stale words in static memory or on stacks may contain the
  // address of a new node. So the function makes 32 nodes more than it needs, and keeps only
  // unreachable ones.
  template <size_t kCount>
  void make_unknown(Node* (&nodes)[kCount]) const {
    Candidate candidates[kCount + 32];
    for (Candidate& candidate : candidates) candidate.object = Hidden(make());
    look_for(candidates);
    size_t count = 0;
    for (const Candidate& candidate : candidates) {
      auto* const node = static_cast<Node*>(candidate.object.get());
      if (candidate.found && count < kCount)
        nodes[count++] = node;
      else
        free(node);
    }
    ASSERT(count == kCount);
  }
  void free(void* object) const { kmem_cache_free(cache_, object); }

 private:
  kmem_cache* const cache_;
};

constinit Node* volatile planted = nullptr;
constinit Node* volatile planted_too = nullptr;

}  // namespace

// ---- Holders and paths.

KTEST(whatis_path_is_the_shortest) {
  const TestCache cache(sizeof(Node));
  Node* nodes[7];
  cache.make_unknown(nodes);
  // planted → 0 → 1 → 6, and planted_too → 2 → 3 → 4 → 6. Node 5 points to node 6, too, but node 5
  // is unreachable.
  nodes[0]->next[3] = nodes[1];
  nodes[1]->next[1] = nodes[6];
  nodes[2]->next[0] = nodes[3];
  nodes[3]->next[0] = nodes[4];
  nodes[4]->next[7] = nodes[6];
  nodes[5]->next[2] = reinterpret_cast<Node*>(number(nodes[6]) + 60);
  nodes[6]->next[0] = nodes[0];
  planted_too = nodes[2];
  planted = nodes[0];
  {
    const Answer answer(number(nodes[6]) + 9);
    EXPECT(answer.is("0x9 bytes into the object 0x%lx of whatis_test, which has 64 bytes: live",
                     number(nodes[6])));
    EXPECT(answer.has("  pointed to by whatis_test 0x%lx +0x8\n", number(nodes[1])));
    EXPECT(answer.has("  pointed to by whatis_test 0x%lx +0x38\n", number(nodes[4])));
    EXPECT(answer.has("  pointed to by whatis_test 0x%lx +0x10\n", number(nodes[5])));
    EXPECT(answer.count("  pointed to by ") == 3);
    EXPECT(
        answer.has("  path: planted+0x0 → whatis_test 0x%lx +0x18 → whatis_test 0x%lx +0x8 → "
                   "whatis_test 0x%lx\n",
                   number(nodes[0]), number(nodes[1]), number(nodes[6])));
  }
  planted = nullptr;  // only the longer path remains
  {
    const Answer answer(nodes[6]);
    EXPECT(
        answer.has("  path: planted_too+0x0 → whatis_test 0x%lx +0x0 → whatis_test 0x%lx +0x0 → "
                   "whatis_test 0x%lx +0x38 → whatis_test 0x%lx\n",
                   number(nodes[2]), number(nodes[3]), number(nodes[4]), number(nodes[6])));
  }
  planted_too = nullptr;
  {
    const Answer answer(nodes[6]);
    EXPECT(answer.has("\n  no path from a root leads to it\n"));
    EXPECT(answer.count("  pointed to by ") == 3);
  }
  cache.free(nodes[6]);  // the pointers to it are dangling now
  {
    const Answer answer(nodes[6]);
    EXPECT(answer.has(": free, in the loaded magazine of CPU "));
    EXPECT(answer.count("  pointed to by ") == 3 && answer.count("path") == 0);
  }
  for (unsigned i = 0; i < 6; i++) cache.free(nodes[i]);
}

KTEST(whatis_many_holders_and_a_long_path) {
  const TestCache cache(sizeof(Node));
  constexpr unsigned kLength = 100;
  Node* nodes[kLength];
  cache.make_unknown(nodes);
  for (unsigned i = 0; i + 1 < kLength; i++) nodes[i]->next[0] = nodes[i + 1];
  Node* first = nodes[0];
  Node* const last = nodes[kLength - 1];
  planted = first;
  {
    const Answer answer(last);
    EXPECT(answer.count(" → ") == 2 * 16 + 1 && answer.has(" → … 68 more → "));
    EXPECT(answer.has(" → whatis_test 0x%lx\n", number(last)));
  }
  for (unsigned i = 1; i < 8; i++) first->next[i] = first->next[0]->next[i] = last;
  for (unsigned i = 1; i < 7; i++) first->next[0]->next[0]->next[i] = last;
  {
    const Answer answer(last);
    EXPECT(answer.count("  pointed to by whatis_test") == 16 && answer.has("\n  … 5 more\n"));
  }
  planted = nullptr;
  while (first) {
    Node* const next = first->next[0];
    cache.free(first);
    first = next;
  }
}

namespace {

// State of a task that moves the pointer `node` to its stack and sleeps.
struct Keeper {
  Node* node = nullptr;
  Spinlock lock{LockRank::kDevice};
  WaitQueue wait;
  std::atomic<bool> has{false}, over{false};
};
void keep_on_stack(void* argument) {
  auto& keeper = *static_cast<Keeper*>(argument);
  Node* volatile kept = keeper.node;
  keeper.node = nullptr;
  const Guard guard(keeper.lock);
  keeper.has = true;
  keeper.wait.wait_uninterruptible(keeper.lock, [&] { return keeper.over.load(); });
  EXPECT(kept != nullptr);
  kept = nullptr;
}

}  // namespace

KTEST(whatis_held_by_a_stack_alone) {
  const TestCache cache(sizeof(Node));
  Node* nodes[1] = {};
  cache.make_unknown(nodes);
  Node* const node = nodes[0];
  Keeper keeper;
  keeper.node = node;
  Team team(keep_on_stack, &keeper);
  team.add();
  while (!keeper.has) task_yield();
  {
    const Answer answer(node);
    EXPECT(answer.has("  pointed to by 0x") && answer.has(", the kernel stack of task "));
    EXPECT(answer.has("  path: 0xffffc") && answer.has(" ktest, "));
  }
  {
    const Guard guard(keeper.lock);
    keeper.over = true;
    keeper.wait.wake_all();
  }
  team.join();
  task_drain_dead();
  cache.free(node);
}

// ---- Kinds of addresses.

namespace {

constexpr unsigned kObjects = 120, kKept = 30;

struct Places {
  unsigned live = 0, in_slab = 0, in_magazine = 0, in_depot = 0;
};
void add_place(Places& places, const Answer& answer) {
  places.live += answer.count(" bytes: live\n");
  places.in_slab += answer.count(" bytes: free, in its slab\n");
  places.in_magazine += answer.count(" bytes: free, in the loaded magazine of CPU ");
  places.in_magazine += answer.count(" bytes: free, in the previous magazine of CPU ");
  places.in_depot += answer.count(" bytes: free, in a full magazine of the depot\n");
}

}  // namespace

KTEST(whatis_states_are_those_of_the_statistics) {
  const TestCache cache(sizeof(Node));
  static constinit std::array<Node*, kObjects> nodes{};
  for (Node*& node : nodes) node = cache.make();
  for (unsigned i = kKept; i < kObjects; i++) cache.free(nodes[i]);
  Places places;
  for (const Node* node : nodes) add_place(places, Answer(node));
  const struct kmem_cache_stats stats = stats_of(cache);
  EXPECT(places.live == kKept);
  EXPECT(places.in_magazine + places.in_depot == stats.magazine_rounds);
  EXPECT(places.in_magazine > 0 && places.in_depot > 0 && stats.depot_full > 0);
  EXPECT(places.live + places.in_slab + places.in_magazine + places.in_depot == kObjects);
  // The structure of this slab lies in the slab's own memory, after the objects.
  kmem_located slab;
  EXPECT(kmem_locate(nodes[0], &slab));
  const Answer structure(number(slab.structure) + 1);
  EXPECT(
      structure.is("0x1 bytes into the slab structure 0x%lx of the slab 0x%lx of whatis_test "
                   "with %u of %u objects out",
                   number(slab.structure), number(slab.pages), slab.out, slab.count));
  EXPECT(structure.count("\n") == 1);
  for (unsigned i = 0; i < kKept; i++) cache.free(nodes[i]);
  nodes.fill(nullptr);
}

KTEST(whatis_objects_with_a_structure_apart) {
  const TestCache cache(3000);
  void* const object = kmem_cache_alloc(cache, KM_SLEEP);
  kmem_located slab;
  EXPECT(kmem_locate(object, &slab));
  {
    const Answer answer(number(object) + 2999);
    EXPECT(
        answer.has("0xbb7 bytes into the object 0x%lx of whatis_test, which has 3000 bytes: live\n",
                   number(object)));
  }
  const Answer answer(slab.structure);
  EXPECT(answer.is("the object 0x%lx of kmem_slab, which has %lu bytes: live",
                   number(slab.structure), kmem_cache_object_size(kmem_cache_of(slab.structure))));
  EXPECT(
      answer.has("\n  it is the slab structure of the slab 0x%lx of whatis_test with 1 of %u "
                 "objects out\n",
                 number(slab.pages), slab.count));
  EXPECT(Answer(number(slab.pages) + slab.count * slab.stride)
             .has(" is in the slab 0x%lx of whatis_test with ", number(slab.pages)));
  kmem_cache_free(cache, object);
  kmem_cache* const itself = cache;
  EXPECT(Answer(itself).has("\n  it is the cache whatis_test\n"));
}

KTEST(whatis_checked_objects) {
  const TestCache cache(100);
  kmem_cache_check_start(cache);
  auto* const kept = static_cast<char*>(kmem_cache_alloc(cache, KM_SLEEP));
  auto* const damaged = static_cast<char*>(kmem_cache_alloc(cache, KM_SLEEP));
  {
    const Answer answer(kept);
    EXPECT(answer.is("the object 0x%lx of whatis_test, which has 100 bytes: live", number(kept)));
    EXPECT(answer.has("\n  in the checked slab 0x") && answer.has("\n  allocated by task main "));
    EXPECT(answer.has(", 100 bytes\n    ffffffff8") && answer.count("  freed by ") == 0);
    EXPECT(Answer(kept + 100).has(" objects out, behind an object\n"));
  }
  asm volatile("movb $1, 104(%0)" ::"r"(damaged) : "memory");
  kmem_cache_free(cache, damaged);
  kmem_cache_free(cache, kept);
  EXPECT(Answer(damaged).has(" has 100 bytes: in quarantine\n"));
  EXPECT(Answer(damaged).has("\n  freed by task main "));
  EXPECT(Answer(kept).has(" has 100 bytes: free, in its slab\n"));
}

KTEST(whatis_allocations_from_arenas) {
  constexpr size_t kLarge = 20 * kPageSize, kVirtual = 3 * kPageSize;
  const uint64_t small = number(arena_alloc(page_arena, 2 * kPageSize, KM_SLEEP));
  const uint64_t large = number(arena_alloc(page_arena, kLarge, KM_SLEEP));
  const uint64_t range = number(arena_alloc(kernel_virtual_arena, kVirtual, KM_SLEEP));
  const uint64_t kept = number(kmalloc(kLarge, KM_SLEEP));
  EXPECT(Answer(small + kPageSize)
             .is("0x1000 bytes into the allocation 0x%lx from the arena page, 8192 bytes by way of "
                 "page_8192: live",
                 small));
  EXPECT(Answer(large + kLarge - 1)
             .is("0x13fff bytes into an allocation from the arena page, 0x%lx with 81920 bytes",
                 large));
  EXPECT(
      Answer(range).is("an allocation from the arena kernel_virtual, 0x%lx with 12288 bytes, "
                       "where nothing is mapped",
                       range));
  EXPECT(Answer(kept).has(": a kmalloc of 20 pages\n"));
  planted = reinterpret_cast<Node*>(large);
  EXPECT(Answer(large + 5).has(" → page 0x%lx\n", large));
  planted = nullptr;
  arena_free(page_arena, reinterpret_cast<void*>(small), 2 * kPageSize);
  arena_free(page_arena, reinterpret_cast<void*>(large), kLarge);
  arena_free(kernel_virtual_arena, reinterpret_cast<void*>(range), kVirtual);
  kfree(reinterpret_cast<void*>(kept));
  EXPECT(Answer(small).has(" by way of page_8192: free, in "));
  unsigned free = 0;
  for (uint64_t at = 0; at < boot_info().highest.value && free == 0; at += uint64_t{32} << 20)
    free += Answer(kDirectMapBase + at).has(" is free memory of the arena base: 0x");
  EXPECT(free > 0);
  const std::span<const Page> descriptors = page_descriptors();
  EXPECT(Answer(&descriptors[3]).is("the descriptor of the page at 0xffff800000003000"));
}

KTEST(whatis_code_data_and_stacks) {
  const Task& me = *current_task();
  const Answer on_stack(me.stack_top() - 8);
  EXPECT(on_stack.has(" is the kernel stack of task %u %s, running on CPU ", me.id, me.name));
  EXPECT(on_stack.has(", 0x8 bytes below its top\n"));
  EXPECT(Answer(me.stack_base - 1)
             .has(" is the guard page below the kernel stack of task %u %s, ", me.id, me.name));
  EXPECT(Answer(number(me.stack_memory) + 16)
             .has(" is the direct map of 0x%lx, the kernel stack of task %u ", me.stack_base + 16,
                  me.id));
  EXPECT(Answer(&me).has("\n  it is task %u %s, running on CPU ", me.id, me.name));
  EXPECT(Answer(reinterpret_cast<uint64_t>(&task_drain_dead) + 2).is("code: task_drain_dead+0x2"));
  EXPECT(Answer(const_cast<Node**>(&planted)).is("data: planted in .bss"));
  EXPECT(Answer(number(const_cast<Node**>(&planted)) + 3).is("data: planted+0x3 in .bss"));
}

// ---- Any number is a valid address to ask about.

KTEST(whatis_any_number) {
  const uint64_t end = kDirectMapBase + boot_info().highest.value;
  for (const uint64_t address : {uint64_t{0}, uint64_t{8}, kUserEnd - 1})
    EXPECT(Answer(address).is("an address of user space"));
  for (const uint64_t address :
       {kUserEnd + kPageSize, uint64_t{1} << 47, uint64_t{1} << 63, kDirectMapBase - 1,
        end + (uint64_t{1} << 40), kKernelVirtualBase + kKernelVirtualSize - 8,
        uint64_t{0x8000'0000'0000'0000}, uint64_t{0x0123'4567'89ab'cdef}, ~uint64_t{0},
        ~uint64_t{7}})
    EXPECT(Answer(address).is("nothing"));
  for (unsigned i = 12; i < 64; i++) EXPECT(Answer(~uint64_t{0} << i).count("\n") >= 1);
  for (unsigned i = 0; i < 8; i++) {
    EXPECT(Answer(ktest_random()).count("\n") == 1);
    EXPECT(Answer(kDirectMapBase + ktest_random() % boot_info().highest.value).count("\n") >= 1);
    EXPECT(Answer(kKernelImageBase + ktest_random() % (16 << 20)).count("\n") == 1);
    EXPECT(Answer(kKernelVirtualBase + ktest_random() % (16 << 20)).count("\n") >= 1);
  }
}

// ---- The open file.

KTEST(whatis_answer_begins_where_it_is_first_read) {
  MemWhatis* const file = MemWhatis::create().take();
  char buffer[64];
  const auto reads = [&](size_t size, uint64_t offset) {
    return std::string_view(buffer, file->read(buffer, size, offset));
  };
  EXPECT(reads(sizeof(buffer), 0).empty());
  EXPECT(file->write("0x10\n").ok());
  EXPECT(reads(4, 5) == "0x10" && reads(4, 9) == " is " && reads(4, 5) == "0x10");
  EXPECT(reads(4, 4).empty() && reads(4, uint64_t{1} << 40).empty());
  EXPECT(reads(sizeof(buffer), 13) == "an address of user space\n");
  EXPECT(file->write("  4097  \n\n").ok());
  EXPECT(reads(7, 0) == "0x1001 " && reads(sizeof(buffer), 1000).empty());
  EXPECT(file->write("0x").error() == Errno::EINVAL && reads(6, 0) == "0x1001");
  MemWhatis::destroy(file);
}

// ---- Without memory.

KTEST(whatis_without_memory) {
  const TestCache cache(sizeof(Node));
  Node* const node = cache.make();
  const unsigned failed = failures_until_success([node]() -> Result<void> {
    Result<WhatisAnswer*> answer = whatis_answer_make(number(node));
    EXPECT(answer || std::string_view(error_string()).starts_with("no memory for "));
    if (!answer) return answer.error();
    whatis_answer_free(*answer);
    return {};
  });
  // The eight allocations are the text, the survey's five tables (page frames, runs, states,
  // sources and stack), the links of the path, and the answer. If one of the tables is too small,
  // the survey makes the tables and the links again.
  EXPECT(failed == 8 || failed == 14);
  cache.free(node);
}
