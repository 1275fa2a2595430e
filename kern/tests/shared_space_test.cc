// Tests an address space that several CPUs use at once: when a function that changes the space has
// returned, no CPU sees the old state.
#include <atomic>

#include "arch/x86_64/interrupts.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "core/user_memory.h"
#include "lib/string.h"
#include "pages.h"
#include "proc/address_space.h"
#include "tests/team.h"

namespace {

constexpr uint64_t kWord = 0x10000000;
constexpr uint32_t kReadWrite = ABI_PROT_READ | ABI_PROT_WRITE;
constexpr unsigned kRounds = 60;

// Kernel tasks on the other CPUs, which use a space as if it were their own.
class Users {
 public:
  // Calls use(argument) repeatedly, with the space active. `use` must not sleep.
  Users(AddressSpace& space, void (*use)(void*), void* argument)
      : space_(space), use_(use), argument_(argument), team_(run, this) {
    const CpuId me = current_task()->cpu;
    for (const CpuId cpu : all_cpus())
      if (cpu != me) team_.add(cpu);
  }
  ~Users() {
    end_ = true;
    team_.join();
  }

 private:
  static void run(void* argument) {
    auto* const self = static_cast<Users*>(argument);
    while (!self->end_) {
      // After each 100 calls the task switches to the kernel's tables for a moment, like a task
      // without a process.
      const PreemptOff preempt_off;
      {
        const InterruptsOff off;
        self->space_.activate();
      }
      for (unsigned i = 0; i < 100 && !self->end_; i++) self->use_(self->argument_);
      const InterruptsOff off;
      AddressSpace::activate_none();
    }
  }

  AddressSpace& space_;
  void (*use_)(void*);
  void* argument_;
  std::atomic<bool> end_{false};
  Team team_;
};

Ref<AddressSpace> space_with_a_page() {
  Ref<AddressSpace> space = AddressSpace::create().take();
  EXPECT(space->add_region(kWord, kWord + 4 * kPageSize, kReadWrite));
  const uint64_t zero = 0;
  EXPECT(space->write(kWord, &zero, sizeof(zero)));
  return space;
}

struct Published {
  std::atomic<uint64_t> word{0};
  std::atomic<bool> mapped{true};
  std::atomic<uint64_t> looks{0};
};

}  // namespace

KTEST(space_copy_on_write_is_seen_by_every_cpu) {
  const Ref<AddressSpace> space = space_with_a_page();
  Published published;
  const Users users(
      *space,
      [](void* argument) {
        auto& known = *static_cast<Published*>(argument);
        const uint64_t least = known.word.load();
        uint64_t found = 0;
        if (!load_user_now(&found, kWord, sizeof(found)))
          ktest_fail(__FILE__, __LINE__, "the page is gone");
        if (found < least) ktest_fail(__FILE__, __LINE__, "a CPU sees the page before the copy");
        known.looks++;
      },
      &published);
  for (uint64_t round = 1; round <= kRounds || published.looks < kRounds; round++) {
    Result<Ref<AddressSpace>> child = space->fork();
    EXPECT(child);
    EXPECT(space->write(kWord, &round, sizeof(round)));
    published.word = round;
    if (cpu_count() == 1 && round == kRounds) break;
  }
}

KTEST(space_unmapping_is_seen_by_every_cpu) {
  const Ref<AddressSpace> space = space_with_a_page();
  Published published;
  const Users users(
      *space,
      [](void* argument) {
        auto& known = *static_cast<Published*>(argument);
        uint64_t found = 0;
        const uint64_t before = known.word;
        const bool mapped = known.mapped;
        const bool loaded = load_user_now(&found, kWord, sizeof(found));
        // This is an error only if no change happened during the load.
        if (!mapped && loaded && known.word == before && !known.mapped)
          ktest_fail(__FILE__, __LINE__, "a CPU still sees what has been unmapped");
        known.looks++;
      },
      &published);
  for (uint64_t round = 1; round <= kRounds || published.looks < kRounds; round++) {
    EXPECT(space->unmap(kWord, 4 * kPageSize));  // frees the tables too
    published.mapped = false;
    const uint64_t looks = published.looks;
    while (cpu_count() > 1 && published.looks < looks + 2) cpu_relax();
    published.mapped = true;
    published.word = round;
    EXPECT(space->add_region(kWord, kWord + 4 * kPageSize, kReadWrite));
    EXPECT(space->write(kWord, &round, sizeof(round)));
    if (cpu_count() == 1 && round == kRounds) break;
  }
}

KTEST(space_fork_stops_the_writers) {
  const Ref<AddressSpace> space = space_with_a_page();
  std::atomic<uint64_t> stores{0};
  const Users users(
      *space,
      [](void* argument) {
        auto& done = *static_cast<std::atomic<uint64_t>*>(argument);
        const uint64_t next = done + 1;
        if (copy_to_user(kWord, &next, sizeof(next))) done = next;
      },
      &stores);
  for (unsigned round = 0; round < kRounds; round++) {
    Result<Ref<AddressSpace>> child = space->fork();
    EXPECT(child);
    uint64_t first = 0, second = 0;
    EXPECT((*child)->read(kWord, &first, sizeof(first)) == sizeof(first));
    EXPECT(space->fault(kWord, FaultAccess::kWrite));
    const uint64_t before = stores;
    while (cpu_count() > 1 && stores < before + 2) cpu_relax();
    EXPECT((*child)->read(kWord, &second, sizeof(second)) == sizeof(second));
    EXPECT(first == second);
  }
}

KTEST(space_physical_is_where_the_word_is) {
  const Ref<AddressSpace> space = space_with_a_page();
  Result<PhysAddr> at = space->physical(kWord + 8);
  EXPECT(at);
  uint32_t word = 77;
  EXPECT(space->write(kWord + 8, &word, sizeof(word)));
  EXPECT(*static_cast<uint32_t*>(direct_map(*at)) == 77);
  // After fork(), physical() first gives the space its own copy of the shared page, as a write
  // would.
  const Ref<AddressSpace> child = space->fork().take();
  at = space->physical(kWord + 8);
  EXPECT(at);
  *static_cast<uint32_t*>(direct_map(*at)) = 78;
  EXPECT(child->read(kWord + 8, &word, sizeof(word)) == sizeof(word) && word == 77);
  EXPECT(!space->physical(kWord + 2) && !space->physical(kWord - 4) &&
         !space->physical(kWord + 4 * kPageSize));
}
