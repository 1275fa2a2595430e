// Tests the search for unreachable objects (reach/reach.h): it recognises pointers wherever they
// may be.
#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <optional>

#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/table_walk.h"
#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "kmalloc.h"
#include "pages.h"
#include "proc/address_space.h"
#include "reach/look_impl.h"
#include "reach/reach.h"
#include "reach/survey_impl.h"
#include "slab_walk.h"
#include "tests/failing.h"
#include "tests/lost_object.h"
#include "tests/reach_looks.h"
#include "tests/team.h"

KTEST(reach_object_that_nobody_knows) {
  const Hidden object = make_object();
  EXPECT(is_found_in_time(object));
  free_object(object);
  EXPECT(!is_found(object));  // the object idles in a magazine
}

namespace {

// Two objects of `size` bytes. The last word of the first object points into the second.
struct Pair {
  size_t size;
  Hidden first, second;
};
constinit volatile uint64_t pair_root = 0;

void make_pair(void* place) {
  auto& pair = *static_cast<Pair*>(place);
  auto* const first = static_cast<uint64_t*>(kmalloc(pair.size, KM_SLEEP | KM_ZERO));
  pair.first = Hidden(first);
  pair.second = Hidden(kmalloc(pair.size, KM_SLEEP | KM_ZERO));
  first[pair.size / sizeof(uint64_t) - 1] = pair.second.value() + pair.size / 2;
  pair_root = pair.first.value() + pair.size - 1;
}
void free_pair(void* place) {
  auto& pair = *static_cast<Pair*>(place);
  kfree(pair.first.get());
  kfree(pair.second.get());
}

}  // namespace

// Objects from slabs of all layouts, and of several pages: a word that points anywhere into an
// object keeps it, and every word of an object is followed. tests/host/reach_test.cc compares the
// search with a simple one on random graphs.
KTEST(reach_objects_of_all_sizes) {
  for (const size_t size : {8u, 24u, 64u, 200u, 1024u, 3000u, 8192u, 12288u, 40960u}) {
    Pair pairs[4];
    size_t made = 0;
    bool lost = false;
    while (made < std::size(pairs) && !lost) {
      Pair& pair = pairs[made++];
      pair.size = size;
      in_another_task(make_pair, &pair);
      const auto look = [&pair] {
        Candidate both[] = {{.object = pair.first}, {.object = pair.second}};
        look_for(both);
        EXPECT(!both[1].found || !both[1].head || !both[0].found);
        return both[0].found && both[0].head && both[1].found;
      };
      EXPECT(!look() && !is_found(pair.second));
      pair_root = 0;
      lost = in_time(look);
    }
    EXPECT(lost);
    while (made > 0) in_another_task(free_pair, &pairs[--made]);
  }
}

// ---- Locations of pointers.

namespace {

// State of a task that holds a pointer. The task sets `has`, and the test sets `over` later.
// Between these two times the task has the only pointer to `object`.
struct Holder {
  Hidden object;
  std::atomic<bool> has{false}, over{false};
};

// Keeps the pointer in a register all the time. An interrupt saves the register in its frame.
#define HOLD_IN(name, reg)                                                             \
  [[gnu::noinline]] void hold_in_##name(void* argument) {                              \
    auto& holder = *static_cast<Holder*>(argument);                                    \
    asm volatile("movq %[complement], %%" #reg "\n\tnotq %%" #reg                      \
                 "\n\tmovb $1, %[has]\n"                                               \
                 "1:\tpause\n\tcmpb $0, %[over]\n\tje 1b\n\txorq %%" #reg ", %%" #reg  \
                 : [has] "=m"(holder.has)                                              \
                 : [complement] "m"(holder.object.complement), [over] "m"(holder.over) \
                 : #reg, "memory", "cc");                                              \
  }
HOLD_IN(callee_saved, rbx)
HOLD_IN(caller_saved, r11)
HOLD_IN(argument, rdi)

// Keeps the pointer on the stack of a sleeping task.
constinit Spinlock sleeper_lock{LockRank::kDevice};
constinit WaitQueue sleeper;
template <typename Known>
void hold_asleep(void* argument, Known known) {
  auto& holder = *static_cast<Holder*>(argument);
  volatile uint64_t on_stack = known(holder.object);
  const Guard guard(sleeper_lock);
  holder.has = true;
  sleeper.wait_uninterruptible(sleeper_lock, [&] { return holder.over.load(); });
  EXPECT(on_stack != 0);
  on_stack = 0;
}
void hold_address(void* argument) {
  hold_asleep(argument, [](Hidden object) { return object.value(); });
}
void hold_interior(void* argument) {
  hold_asleep(argument, [](Hidden object) { return object.value() + 100; });
}
void hold_tagged(void* argument) {
  hold_asleep(argument, [](Hidden object) { return object.value() | 7; });
}
void hold_physical(void* argument) {
  hold_asleep(argument, [](Hidden object) { return direct_map_phys(object.get()).value; });
}

void hold_entry(void* argument) {
  constexpr uint64_t kWritableDirty = 0x42;
  hold_asleep(argument, [](Hidden object) {
    return direct_map_phys(object.get()).value | kNoExecuteEntry | kUserEntry | kPresentEntry |
           kWritableDirty;
  });
}

// Expects that a search does not find the object while a task holds it, and finds it afterwards.
void expect_held_by(void (*hold)(void*), Hidden object) {
  Holder holder{.object = object};
  Team team(hold, &holder);
  team.add();
  while (!holder.has) task_yield();
  EXPECT(!is_found(object));
  {
    const Guard guard(sleeper_lock);
    holder.over = true;
    sleeper.wake_all();
  }
  team.join();
  task_drain_dead();
  EXPECT(is_found_in_time(object));
}
void expect_held_by(void (*hold)(void*)) {
  const Hidden object = make_object();
  expect_held_by(hold, object);
  free_object(object);
}

[[gnu::noinline]] void find_out(Candidate& one) {
  look_for({&one, 1});
}

}  // namespace

KTEST(reach_registers) {
  expect_held_by(hold_in_callee_saved);
  expect_held_by(hold_in_caller_saved);
  expect_held_by(hold_in_argument);
}

// There are more tasks than CPUs, so some tasks are always interrupted and not running. The only
// pointer to such a task's object is in the frame that the interrupt saved.
KTEST(reach_saved_interrupt_frames) {
  constexpr unsigned kMost = 16;
  static void (*const kHolds[])(void*) = {hold_in_callee_saved, hold_in_caller_saved,
                                          hold_in_argument};
  const unsigned count = std::min(2 * cpu_count() + 1, kMost);
  struct Held {
    Held(void (*hold)(void*), Hidden object) : holder{.object = object}, team(hold, &holder) {}
    Holder holder;
    Team team;
  };
  std::optional<Held> all[kMost];
  for (unsigned i = 0; i < count; i++) all[i].emplace(kHolds[i % std::size(kHolds)], make_object());
  for (unsigned i = 0; i < count; i++) all[i]->team.add();
  for (unsigned i = 0; i < count; i++) {
    while (!all[i]->holder.has) task_yield();
  }
  for (unsigned i = 0; i < count; i++) EXPECT(!is_found(all[i]->holder.object));
  for (unsigned i = 0; i < count; i++) all[i]->holder.over = true;
  for (unsigned i = 0; i < count; i++) all[i]->team.join();
  task_drain_dead();
  for (unsigned i = 0; i < count; i++) {
    EXPECT(is_found_in_time(all[i]->holder.object));
    free_object(all[i]->holder.object);
  }
}

namespace {

constexpr uint64_t kLeft = 0x1e0f'7be4'4d00'57ac;

// An interrupt handler leaves words on an idle CPU's stack, below the frames of the idle loop. The
// idle loop must clear these words (dead_frames_clear). Otherwise the next handler's frame, which
// the handler does not write completely, would still contain some of them.
[[gnu::noinline]] void leave_words(void*) {
  volatile uint64_t words[128];
  for (volatile uint64_t& word : words) word = kLeft;
}
[[gnu::noinline]] void see_words(void* seen) {
  volatile uint64_t words[128];
  asm volatile("" : "=m"(words));
  for (const volatile uint64_t& word : words)
    *static_cast<std::atomic<unsigned>*>(seen) += word == kLeft;
}

}  // namespace

KTEST(reach_dead_frames_of_idle_cpus) {
  std::atomic<unsigned> seen{0};
  {
    const PreemptOff off;
    const uint64_t others =
        ((uint64_t{1} << cpu_count()) - 1) & ~(uint64_t{1} << number_of(cpu_id()));
    call_on_cpus(others, leave_words, nullptr);
    // After this time, the CPUs are back in their idle loops.
    for (const Nanoseconds end = monotonic_now() + Nanoseconds{20'000'000}; monotonic_now() < end;)
      ;
    call_on_cpus(others, see_words, &seen);
  }
  EXPECT(seen == 0);
}

KTEST(reach_sleeping_stack) {
  expect_held_by(hold_address);
  expect_held_by(hold_interior);
  expect_held_by(hold_tagged);
}

// The searching task holds the pointer in a callee-saved register.
KTEST(reach_own_register) {
  Candidate one{.object = make_object()};
  in_another_task(
      [](void* place) {
        auto& held = *static_cast<Candidate*>(place);
        asm volatile(
            "movq %[complement], %%r14\n\tnotq %%r14\n\tmovq %[one], %%rdi\n\t"
            "call *%[find]\n\txorq %%r14, %%r14" ::[complement] "b"(held.object.complement),
            [one] "r"(&held), [find] "r"(find_out)
            : "rdi", "rsi", "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r14", "memory", "cc");
      },
      &one);
  EXPECT(!one.found);
  EXPECT(is_found_in_time(one.object));
  free_object(one.object);
}

namespace {

void make_page(void* place) {
  const PhysAddr physical = page_alloc(KM_SLEEP | KM_ZERO).take();
  *static_cast<Hidden*>(place) = Hidden(direct_map(physical));
}
void free_page(void* place) {
  page_free(direct_map_phys(static_cast<Hidden*>(place)->get()));
}

}  // namespace

// The only pointer to a page is a word on a stack: the page's physical address, or a page-table
// entry for the page. The stack of a task that sleeps for long may have a stale word of this kind.
// So the test takes pages until it gets one to which no word leads.
KTEST(reach_page_on_the_way) {
  Hidden pages[4];
  unsigned made = 0;
  bool lost = false;
  while (made < std::size(pages) && !lost) {
    in_another_task(make_page, &pages[made]);
    lost = is_found_in_time(pages[made++]);
  }
  EXPECT(lost);
  expect_held_by(hold_physical, pages[made - 1]);
  expect_held_by(hold_entry, pages[made - 1]);
  while (made > 0) in_another_task(free_page, &pages[--made]);
}

// ---- Packed pointers: words that are not addresses. A function of their owner tells the search
// which objects they mean.

namespace {

// An object of a cache that has a walker: a function that tells the search where `packed` points.
// The walker stays registered for ever.
struct Packer {
  Hidden packed;
};
constinit kmem_cache* packers = nullptr;
constinit Packer* volatile known_packer = nullptr;

void show_packed(const void* object, ReachVisitor& visitor) {
  visitor.object(static_cast<const Packer*>(object)->packed.get());
}

// A packed pointer in static memory. A registered provider reports the object to which it points.
constinit Hidden packed_in_static;
void show_static(ReachVisitor& visitor) {
  visitor.object(packed_in_static.get());
}
constinit ReachProvider provider_of_static{nullptr, show_static};

}  // namespace

KTEST(reach_packed_in_an_object) {
  if (!packers) {
    packers = kmem_cache_create("reach_packers", sizeof(Packer), 0, 0, nullptr, nullptr, nullptr,
                                nullptr);
    reach_register_walker(packers, show_packed);
  }
  Candidate one{.object = make_object()};
  in_another_task(
      [](void* place) {
        auto* const packer = static_cast<Packer*>(kmem_cache_alloc(packers, KM_SLEEP));
        packer->packed = static_cast<Candidate*>(place)->object;
        known_packer = packer;
      },
      &one);
  EXPECT(!is_found(one.object));
  Hidden packer;
  in_another_task(
      [](void* place) {
        *static_cast<Hidden*>(place) = Hidden(known_packer);
        known_packer = nullptr;
      },
      &packer);
  EXPECT(is_found_in_time(packer));
  look_for({&one, 1});
  EXPECT(one.found && !one.head);  // the packer leads to the object, so the object is not a head
  free_object(one.object);
  in_another_task([](void* place) { kmem_cache_free(packers, static_cast<Hidden*>(place)->get()); },
                  &packer);
}

KTEST(reach_packed_in_static_memory) {
  static constinit bool registered = false;
  if (!registered) reach_register(provider_of_static);
  registered = true;
  packed_in_static = make_object();
  EXPECT(!is_found(packed_in_static));
  const Hidden object = packed_in_static;
  packed_in_static = {};
  EXPECT(is_found_in_time(object));
  free_object(object);
}

// ---- Pages of programs. Page tables lead to them.

namespace {

constexpr uint64_t kUserAddress = 0x4000'0000;
constexpr unsigned kUserPages = 5;

struct Space {
  Hidden space;
  uint64_t number;  // HeldRef::number of the reference to the space
  Hidden page;      // a page of user memory
};
void make_space(void* argument) {
  auto& made = *static_cast<Space*>(argument);
  Ref<AddressSpace> space = AddressSpace::create().take();
  EXPECT(space->add_region(kUserAddress, kUserAddress + kUserPages * kPageSize, 3).ok());
  const uint64_t word = 0x5a5a;
  for (unsigned i = 0; i < kUserPages; i++)
    EXPECT(space->write(kUserAddress + i * kPageSize, &word, sizeof(word)).ok());
  const HeldRef<AddressSpace> held = space.release();
  made.space = Hidden(held.object);
  made.number = held.number;
}
void drop_space(void* argument) {
  const auto& made = *static_cast<Space*>(argument);
  Ref<AddressSpace>::adopt({static_cast<AddressSpace*>(made.space.get()), made.number});
}

struct Counted {
  uint64_t pages, spaces, heads;
  Hidden space;
  Hidden head;  // one of the heads
  uint64_t head_size;
};
void count_pages(void* argument, const reach::Object& object, bool head) {
  auto& counted = *static_cast<Counted*>(argument);
  counted.heads += head;
  counted.pages += object.size() == kPageSize;
  counted.spaces += counted.space.is(object.address()) && head;
  if (head) {
    counted.head = Hidden(reinterpret_cast<const void*>(object.address()));
    counted.head_size = object.size();
  }
}
[[gnu::noinline]] Counted count_with(Hidden space) {
  Counted counted{};
  counted.space = space;
  LookAtAll all;
  all->observer = count_pages;
  all->observer_argument = &counted;
  all.look();
  return counted;
}

constinit AddressSpace* volatile known_space = nullptr;

}  // namespace

// True if a search finds the lost space with all that it keeps: its region, its pages, and four
// levels of tables. `known`: the counts while the space was known.
static bool is_lost_with_its_pages(const Space& space, const Counted& known) {
  return in_time([&] {
    const Counted lost = count_with(space.space);
    return lost.spaces == 1 && lost.heads == known.heads + 1 &&
           lost.pages == known.pages + kUserPages + 4;
  });
}

// The stack of a task that sleeps for long may have stale words that lead to a page of the space.
// So the test tries several spaces, and keeps them until the end, because freed pages would be used
// again.
KTEST(reach_user_pages) {
  Space spaces[4];
  unsigned made = 0;
  bool found = false;
  while (made < std::size(spaces) && !found) {
    Space& space = spaces[made++];
    in_another_task(make_space, &space);
    known_space = static_cast<AddressSpace*>(space.space.get());
    const Counted known = count_with(space.space);
    known_space = nullptr;
    EXPECT(known.spaces == 0);
    EXPECT(known.heads < made);  // other tests have lost nothing
    if (known.heads >= made)
      klog("lost: %lu bytes at ~%#lx", known.head_size, known.head.complement);
    found = is_lost_with_its_pages(space, known);
  }
  EXPECT(found);
  while (made > 0) in_another_task(drop_space, &spaces[--made]);
}

// ---- Other cases.

// Objects of a slab with run-time checking, which has another layout.
KTEST(reach_checked_objects) {
  kmem_cache* const cache =
      kmem_cache_create("reach_test", 100, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache_check_start(cache);
  struct Two {
    kmem_cache* cache;
    Hidden kept, freed;
  } two{cache, {}, {}};
  in_another_task(
      [](void* argument) {
        auto& made = *static_cast<Two*>(argument);
        made.kept = Hidden(kmem_cache_alloc(made.cache, KM_SLEEP));
        made.freed = Hidden(kmem_cache_alloc(made.cache, KM_SLEEP));
        kmem_cache_free(made.cache, made.freed.get());
      },
      &two);
  EXPECT(is_found_in_time(two.kept));
  EXPECT(!is_found(two.freed));
  kmem_cache_free(cache, two.kept.get());
  kmem_cache_destroy(cache);
}

// ---- Magazines.

namespace {

// Counts the magazines that a search scans. A search scans only magazines that are in transit
// between a CPU and the depot, so the count is 0 if no CPU is exchanging a magazine.
class MagazinesOnTheWay final : public reach::SurveyWork {
 public:
  void look(const reach::Survey& survey) override {
    count = 0;
    survey.index.for_each(reach::kLive, reach::kLive, [&](const reach::Object& object) {
      const kmem_cache* const cache = survey.sources[object.run->source].cache;
      count += cache && kmem_walk_kind_of(cache) == KMEM_WALK_MAGAZINES;
    });
  }
  uint64_t count = 0;
};

}  // namespace

// Expects that a search scans no magazine of any cache, the allocator's own caches included. Stale
// words in a scanned magazine would hide lost objects.
KTEST(reach_magazines_in_their_places) {
  // These objects have bufctls. Freeing them leaves some bufctls in magazines.
  kmem_cache* const cache =
      kmem_cache_create("reach_test", 3000, 0, 0, nullptr, nullptr, nullptr, nullptr);
  std::array<void*, 64> objects;
  for (void*& object : objects) object = kmem_cache_alloc(cache, KM_SLEEP);
  for (void* object : objects) kmem_cache_free(cache, object);
  kmem_cache_destroy(cache);
  MagazinesOnTheWay work;
  bool none = false;
  for (unsigned i = 0; i < 10 && !none; i++) {  // another CPU may be exchanging a magazine
    EXPECT(reach::survey(work).ok());
    none = work.count == 0;
  }
  EXPECT(none);
}

// ---- Without memory.

// As long as an allocation fails, there is no report.
KTEST(reach_without_memory) {
  const unsigned failed = failures_until_success([]() -> Result<void> {
    ReachReport* const report = TRY(reach_report_make());
    EXPECT(reach_report_text(report).starts_with("unreachable objects "));
    reach_report_free(report);
    return {};
  });
  // The survey makes five allocations: for page frames, runs of objects, states of objects,
  // sources, and the mark stack. If one of the five is too small, the survey makes all five again.
  // Three other allocations are for the findings, the tasks that wait for locks, and the text.
  EXPECT(failed == 8 || failed == 13);
}

// A table points to more objects than fit on the mark stack of the search.
KTEST(reach_long_list_of_many) {
  struct Node {
    Node* next;
    uint64_t more[3];
  };
  kmem_cache* const cache =
      kmem_cache_create("reach_test", sizeof(Node), 0, 0, nullptr, nullptr, nullptr, nullptr);
  constexpr unsigned kCount = 40000;
  auto* const table = static_cast<Node**>(kmalloc(kCount * sizeof(Node*), KM_SLEEP | KM_ZERO));
  for (unsigned i = 0; i < kCount; i++) {
    table[i] = static_cast<Node*>(kmem_cache_alloc(cache, KM_SLEEP));
    *table[i] = {};
  }
  {
    LookAtAll all;
    all.look();
    EXPECT(all->overflows > 0);
    EXPECT(all->groups->unreached().objects == 0);
    EXPECT(all->live > kCount);
  }
  for (unsigned i = 0; i < kCount; i++) kmem_cache_free(cache, table[i]);
  kfree(table);
  kmem_cache_destroy(cache);
}
