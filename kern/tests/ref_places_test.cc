// Tests the locations that reach/references.cc reports: of references in each type of memory, of
// moved references, and of lost references.
#include <array>
#include <atomic>
#include <utility>

#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/list.h"
#include "lib/optimizer.h"
#include "reach/references_impl.h"
#include "tests/counted.h"
#include "tests/dump_text.h"
#include "tests/failing.h"
#include "tests/reach_looks.h"
#include "tests/team.h"

namespace {

using Where = RefPlaces::Where;

// Finds the locations of all references of the tests' class (RefKind::kTest). of() returns the
// location of the only reference to an object.
class Places {
 public:
  Places() { EXPECT(reach::find_references(places_, kind().references()).ok()); }
  RefPlaces::Location of(Hidden object) const {
    RefPlaces::Location found{};
    unsigned count = 0;
    for (const RefPlaces::Entry& entry : places_.all()) {
      if (!object.is(entry.object)) continue;
      found = entry.place;
      count++;
    }
    EXPECT(count == 1);
    return found;
  }
  bool says(const RefPlaces::Location& place, std::string_view text) const {
    char buffer[RefPlaces::kText];
    const auto length = static_cast<size_t>(places_.format(buffer, sizeof(buffer), place));
    return std::string_view(buffer, length).find(text) != std::string_view::npos;
  }
  size_t size() const { return places_.all().size(); }

 private:
  RefPlaces places_;
};

// A reference to which no root leads: the test itself stores only the complements of the two words
// of the reference.
struct HiddenRef {
  Hidden object;
  uint64_t complement = 0;

  void hide(HeldRef<Counted> held) {
    object = Hidden(held.object);
    complement = ~held.number;
  }
  HeldRef<Counted> shown() const { return {static_cast<Counted*>(object.get()), ~complement}; }
};
HiddenRef make_hidden() {
  HiddenRef made;
  in_another_task(
      [](void* made) { static_cast<HiddenRef*>(made)->hide(Counted::make().release()); }, &made);
  return made;
}
void put(HiddenRef hidden) {
  in_another_task(
      [](void* hidden) { Ref<Counted>::adopt(static_cast<HiddenRef*>(hidden)->shown()).reset(); },
      &hidden);
}

struct Holder {
  uint64_t before[3];
  Ref<Counted> ref;
  HeldRef<Counted> held;
  ListNode link;

  static Holder* make() {
    void* const memory = kmalloc(sizeof(Holder), KM_SLEEP | KM_ZERO);
    EXPECT(memory);
    return new (memory) Holder();
  }
  static void destroy(Holder* holder) {
    holder->~Holder();
    kfree(holder);
  }
};

constinit HeldRef<Counted> static_ref;
void put_static() {
  Ref<Counted>::adopt(std::exchange(static_ref, {})).reset();
}
constinit volatile uint64_t static_words[2] = {};
// Stores the complements of `first` and `second` in the static words. The stored values are never
// in registers, which an interrupt would save on the test's stack.
void set_static_words(const uint64_t& first, const uint64_t& second) {
  static_words[0] = first;
  static_words[1] = second;
  asm volatile("notq %0; notq %1" : "+m"(static_words[0]), "+m"(static_words[1]) : : "cc");
}
constinit List<Holder, &Holder::link> holders;

bool is_at(const RefPlaces::Location& place, const void* address, const void* holder) {
  return place.where == Where::kObject && place.address == reinterpret_cast<uint64_t>(address) &&
         place.holder == reinterpret_cast<uint64_t>(holder);
}

}  // namespace

KTEST(ref_places_are_objects_and_static_data) {
  const Traced traced;
  static_ref = Counted::make().release();
  Holder* const one = Holder::make();
  Holder* const other = Holder::make();
  one->ref = Counted::make();
  other->ref = Counted::make();
  other->held = Counted::make().release();
  holders.push_back(*other);
  {
    const Places places;
    const RefPlaces::Location of_static = places.of(Hidden(static_ref.object));
    EXPECT(of_static.where == Where::kStatic);
    EXPECT(of_static.address == reinterpret_cast<uint64_t>(&static_ref));
    EXPECT(places.says(of_static, "in static data at 0x"));
    EXPECT(is_at(places.of(Hidden(one->ref.get())), &one->ref, one));
    EXPECT(is_at(places.of(Hidden(other->held.object)), &other->held, other));
    EXPECT(places.says(places.of(Hidden(one->ref.get())), "at +0x18 of kmalloc_"));
    EXPECT(places.size() == 4);
  }
  std::swap(one->ref, other->ref);
  put_static();
  static_ref = one->ref.release();
  {
    const Places places;
    EXPECT(is_at(places.of(Hidden(other->ref.get())), &other->ref, other));
    EXPECT(places.of(Hidden(static_ref.object)).where == Where::kStatic);
    EXPECT(places.size() == 3);
    const DumpText text(kind());
    EXPECT(text.count("\treference to 0x") == 3 && text.count(" in static data at 0x") == 1);
    EXPECT(text.count(" at +0x18 of kmalloc_") == 1 && !text.has("nowhere found"));
  }
  put_static();
  Ref<Counted>::adopt(std::exchange(other->held, {})).reset();
  other->link.unlink();
  Holder::destroy(one);
  Holder::destroy(other);
}

// ---- The stack of a sleeping task.

namespace {

struct Sleeper {
  Spinlock lock{LockRank::kDevice};
  WaitQueue queue;
  HiddenRef hidden;
  bool has = false, over = false;

  // Sleeps while `words` lie somewhere on the caller's stack.
  void sleep(const volatile void* words) {
    escape(words);
    const Guard guard(lock);
    has = true;
    queue.wait_uninterruptible(lock, [this] { return over; });
  }
  void wake() {
    const Guard guard(lock);
    over = true;
    queue.wake_all();
  }
  void wait_until_it_sleeps() {
    for (;;) {
      {
        const Guard guard(lock);
        if (has) return;
      }
      task_yield();
    }
  }
};

void sleep_with_reference(void* argument) {
  auto& sleeper = *static_cast<Sleeper*>(argument);
  const Ref<Counted> ref = Counted::make();
  sleeper.hidden.object = Hidden(ref.get());
  sleeper.sleep(&ref);
}
void sleep_with_words_apart(void* argument) {
  auto& sleeper = *static_cast<Sleeper*>(argument);
  volatile uint64_t words[3] = {~sleeper.hidden.complement, 0, sleeper.hidden.object.value()};
  sleeper.sleep(words);
  words[0] = 0;
  words[2] = 0;
}

void sleep_with_words(void* argument) {
  auto& sleeper = *static_cast<Sleeper*>(argument);
  volatile uint64_t words[2] = {sleeper.hidden.object.value(), ~sleeper.hidden.complement};
  sleeper.sleep(words);
  words[0] = 0;
  words[1] = 0;
}

RefPlaces::Location place_while(void (*body)(void*), Sleeper& sleeper, const char* says) {
  Team team(body, &sleeper);
  team.add();
  sleeper.wait_until_it_sleeps();
  const Places places;
  const RefPlaces::Location place = places.of(sleeper.hidden.object);
  EXPECT(places.says(place, says));
  sleeper.wake();
  team.join();
  task_drain_dead();
  return place;
}

}  // namespace

KTEST(ref_places_are_stacks) {
  const Traced traced;
  {
    Sleeper sleeper;
    EXPECT(place_while(sleep_with_reference, sleeper, "on the kernel stack of task ktest").where ==
           Where::kStack);
  }
  Sleeper sleeper;
  sleeper.hidden = make_hidden();
  EXPECT(Places().of(sleeper.hidden.object).where == Where::kNowhere);
  EXPECT(place_while(sleep_with_words_apart, sleeper, "perhaps on the kernel stack of task ktest")
             .where == Where::kStackApart);
  put(sleeper.hidden);
}

// A stack may hold a stale copy of a reference that is elsewhere now. So a location on a stack is
// reported only if the reference is found nowhere else.
KTEST(ref_places_on_a_stack_come_last) {
  const Traced traced;
  Sleeper one, other;
  one.hidden = other.hidden = make_hidden();
  EXPECT(place_while(sleep_with_words, one, "on the kernel stack of task ktest").where ==
         Where::kStack);
  set_static_words(other.hidden.object.complement, other.hidden.complement);
  EXPECT(place_while(sleep_with_words, other, "in static data at 0x").where == Where::kStatic);
  set_static_words(~uint64_t{0}, ~uint64_t{0});
  put(other.hidden);
}

// A reference consists of two words: its object's address and its number. The reference is lost if
// memory has the two words only in the wrong order, or the address only with the number of another
// reference.
KTEST(ref_places_of_a_lost_reference) {
  const Traced traced;
  const HiddenRef lost = make_hidden(), other = make_hidden();
  const auto is_lost = [&] {
    const Places places;
    const RefPlaces::Location place = places.of(lost.object);
    return place.where == Where::kNowhere && places.says(place, "nowhere found") &&
           places.of(other.object).where == Where::kNowhere;
  };
  EXPECT(is_lost());
  set_static_words(lost.object.complement, other.complement);
  EXPECT(is_lost());
  set_static_words(lost.complement, lost.object.complement);
  EXPECT(is_lost());
  set_static_words(lost.object.complement, lost.complement);
  EXPECT(!is_lost());
  set_static_words(~uint64_t{0}, ~uint64_t{0});
  {
    const DumpText text(kind());
    EXPECT(text.has("\t2 references nowhere found\n") && !text.has("\treference to "));
  }
  put(lost);
  put(other);
}

// The only copy of the reference is in an object that nobody can reach. The reported location is in
// this object.
KTEST(ref_places_in_an_object_that_nobody_reaches) {
  const Traced traced;
  Hidden holder;
  in_another_task(
      [](void* place) {
        Holder* const holder = Holder::make();
        holder->ref = Counted::make();
        *static_cast<Hidden*>(place) = Hidden(holder);
      },
      &holder);
  Hidden object;
  std::pair<Hidden, Hidden*> both{holder, &object};
  in_another_task(
      [](void* both) {
        const auto& [holder, object] = *static_cast<std::pair<Hidden, Hidden*>*>(both);
        *object = Hidden(static_cast<Holder*>(holder.get())->ref.get());
      },
      &both);
  {
    const Places places;
    const RefPlaces::Location place = places.of(object);
    EXPECT(place.where == Where::kUnreachedObject && holder.is(place.holder));
    EXPECT(places.says(place, "at +0x18 of kmalloc_") &&
           places.says(place, ", which nobody can reach"));
  }
  in_another_task(
      [](void* holder) {
        Holder::destroy(static_cast<Holder*>(static_cast<Hidden*>(holder)->get()));
      },
      &holder);
}

// ---- While references come and go on all CPUs.

namespace {

struct Churn {
  static constexpr unsigned kPlaces = 64;
  Spinlock lock{LockRank::kDevice};
  std::array<Ref<Counted>, kPlaces> places GUARDED_BY(lock);
  Ref<Counted> object;
  std::atomic<bool> over{false};

  void run() {
    for (uint64_t random = 1; !over; random = random * 0x5851f42d4c957f2d + 1) {
      Ref<Counted> mine(object);
      const Guard guard(lock);
      std::swap(mine, places[random >> 58]);
    }
  }
};

}  // namespace

KTEST(ref_places_under_load) {
  constexpr unsigned kTasks = 4;
  const Traced traced;
  Churn* const churn = new (kmalloc(sizeof(Churn), KM_SLEEP)) Churn;
  churn->object = Counted::make();
  Team team([](void* argument) { static_cast<Churn*>(argument)->run(); }, churn);
  for (unsigned i = 0; i < kTasks; i++) team.add();
  for (unsigned i = 0; i < 6; i++) {
    RefPlaces places;
    EXPECT(reach::find_references(places, kind().references()).ok());
    EXPECT(places.all().size() <= Churn::kPlaces + 1 + 2 * kTasks);
    // Each task has at most two references in registers or on its stack.
    unsigned elsewhere = 0;
    for (const RefPlaces::Entry& entry : places.all()) {
      EXPECT(entry.object == reinterpret_cast<uint64_t>(churn->object.get()));
      elsewhere += entry.place.holder != reinterpret_cast<uint64_t>(churn);
    }
    EXPECT(elsewhere <= 2 * kTasks);
    task_yield();
  }
  churn->over = true;
  team.join();
  churn->~Churn();
  kfree(churn);
}

// ---- Without memory.

// If there is no memory for the search, the dump has no locations, and says so.
KTEST(ref_places_without_memory) {
  const Traced traced;
  static_ref = Counted::make().release();
  const unsigned failed = failures_until_success([] {
    RefPlaces places;
    return reach::find_references(places, kind().references());
  });
  // RefPlaces::begin() makes two allocations, for the references and for names. The survey makes
  // five: for page frames, runs of objects, states of objects, sources, and the mark stack. If one
  // of the five is too small, the survey makes all five again.
  EXPECT(failed == 7 || failed == 12);
  Result<TraceDump*> dump = [] {
    const FailingAllocations failing(0);
    return trace_dump_open(kind());
  }();
  EXPECT(dump.ok());
  if (dump) {
    unsigned said = 0;
    read_lines(*dump, [&](std::string_view line) {
      said += line == "their locations are not known: there was no memory for the search";
      EXPECT(!line.starts_with("\treference"));
    });
    EXPECT(said == 1);
    trace_dump_close(*dump);
  }
  put_static();
}
