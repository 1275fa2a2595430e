// Tests what the architecture layer guarantees to the rest of the kernel.
#include <atomic>
#include <bit>

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/frames.h"
#include "arch/x86_64/interrupt_controller.h"
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/reference_clocks_impl.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "arena.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "core/symbols.h"
#include "core/user_memory.h"
#include "lib/format.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "pages.h"
#include "sched/task.h"
#include "slab.h"

extern "C" const char text_start[], text_end[], rodata_start[], rodata_end[];

namespace {

bool formats_as(const char* expected, const char* pattern, ...)
    __attribute__((format(printf, 2, 3)));
bool formats_as(const char* expected, const char* pattern, ...) {
  char text[64];
  va_list arguments;
  va_start(arguments, pattern);
  const int length = vformat(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  return strcmp(text, expected) == 0 && length == static_cast<int>(strlen(expected));
}

std::atomic<uint64_t> called_on{0};
std::atomic<unsigned> calls{0};
void note_call(void*) {
  called_on |= uint64_t{1} << number_of(cpu_id());
  calls++;
  if (interrupts_enabled())
    ktest_fail(__FILE__, __LINE__, "a cross-CPU call runs with interrupts off");
}

constexpr unsigned kCallers = 4, kCallsEach = 50;
std::atomic<unsigned> callers_done{0};
void call_many(void*) {
  for (unsigned i = 0; i < kCallsEach; i++) on_each_cpu(note_call, nullptr);
  callers_done++;
}

constexpr size_t kMaxWalk = 32;
uint64_t walked[kMaxWalk];
[[gnu::noinline]] size_t walk_from_depth(unsigned depth) {
  if (depth == 0)
    return walk_kernel_stack(reinterpret_cast<uint64_t>(__builtin_frame_address(0)), walked,
                             kMaxWalk);
  const size_t n = walk_from_depth(depth - 1);
  keep_frame();
  return n;
}

size_t interrupt_walk = 0;
void walk_in_interrupt(TrapFrame&, void*) {
  interrupt_walk =
      walk_kernel_stack(reinterpret_cast<uint64_t>(__builtin_frame_address(0)), walked, kMaxWalk);
}

constexpr uint8_t kTestVector = 0xe1;

// An unmapped page of the kernel's virtual range, which the test may map.
class VirtualPage {
 public:
  VirtualPage()
      : address_(
            reinterpret_cast<uint64_t>(arena_alloc(kernel_virtual_arena, kPageSize, KM_SLEEP))) {}
  ~VirtualPage() { arena_free(kernel_virtual_arena, reinterpret_cast<void*>(address_), kPageSize); }
  uint64_t address() const { return address_; }

 private:
  const uint64_t address_;
};

uint32_t read_word(void* address) {
  return *static_cast<volatile uint32_t*>(address);
}

constexpr uint64_t kPresentBit = 1, kWritableBit = 2, kLargeBit = 1 << 7, kCacheDisableBit = 1 << 4,
                   kNoExecuteBit = uint64_t{1} << 63, kTableMask = 0x000ffffffffff000,
                   kLargePageSize = 2 << 20;

// Counts the mappings in the table, and in the tables below it, for which is(physical address,
// entry) returns true.
template <typename Is>
unsigned mappings(uint64_t table, unsigned level, unsigned first, Is is) {
  const auto* entries = static_cast<const uint64_t*>(direct_map({table}));
  unsigned count = 0;
  for (unsigned i = first; i < 512; i++) {
    const uint64_t entry = entries[i];
    if (!(entry & kPresentBit)) continue;
    if (level == 0 || (entry & kLargeBit))
      count += is(entry & kTableMask, entry);
    else
      count += mappings(entry & kTableMask, level - 1, 0, is);
  }
  return count;
}
template <typename Is>
unsigned kernel_mappings(Is is) {
  return mappings(read_cr3() & kTableMask, 3, 256, is);
}

bool overlaps(uint64_t physical, uint64_t size, const char* start, const char* end) {
  return physical < reinterpret_cast<uint64_t>(end) - kKernelImageBase &&
         physical + size > reinterpret_cast<uint64_t>(start) - kKernelImageBase;
}

void read_and_keep(void* address) {
  static_cast<void>(read_word(address));
}

}  // namespace

KTEST(format_as_c_does) {
  EXPECT(formats_as("-5 007 +3 ff FF 17", "%d %03d %+d %x %X %o", -5, 7, 3, 255, 255, 15));
  EXPECT(formats_as("[   ab][ab   ][a]", "[%5s][%-5s][%.1s]", "ab", "ab", "ab"));
  EXPECT(formats_as("18446744073709551615 -9223372036854775808", "%lu %ld", UINT64_MAX, INT64_MIN));
  EXPECT(formats_as("x   9 00012 %", "%c %*d %.5d %%", 'x', 3, 9, 12));
  EXPECT(formats_as("0xffff800000000000 44", "%p %hhd", reinterpret_cast<void*>(kDirectMapBase),
                    static_cast<char>(300)));
  char small[4];
  EXPECT(format(small, sizeof(small), "%s", "long") == 4);
  EXPECT(strcmp(small, "lon") == 0);
  EXPECT(format(nullptr, 0, "%d", 1234) == 4);
}

KTEST(memory_functions_with_overlap) {
  char text[] = "0123456789";
  memmove(text + 2, text, 8);
  EXPECT(strcmp(text, "0101234567") == 0);
  memmove(text, text + 2, 8);
  EXPECT(strcmp(text, "0123456767") == 0);
  EXPECT(memcmp("a\xff", "a\x01", 2) > 0);
  EXPECT(strncmp("abc", "abd", 2) == 0);
}

KTEST(no_mapping_of_code_can_be_written) {
  EXPECT(kernel_mappings([](uint64_t physical, uint64_t entry) {
           const bool writable = entry & kWritableBit, executable = !(entry & kNoExecuteBit);
           const uint64_t size = entry & kLargeBit ? kLargePageSize : kPageSize;
           if (writable && executable) return true;
           return writable && (overlaps(physical, size, text_start, text_end) ||
                               overlaps(physical, size, rodata_start, rodata_end));
         }) == 0);
  EXPECT(kernel_mappings([](uint64_t physical, uint64_t entry) {
           return !(entry & kNoExecuteBit) && overlaps(physical, kPageSize, text_start, text_end);
         }) > 0);
}

// Registers of devices may lie in the holes of memory.
KTEST(direct_map_has_memory_only) {
  const MemoryMap& memory = boot_info().memory;
  uint64_t mapped = 0;
  kernel_mappings([&](uint64_t physical, uint64_t entry) {
    const uint64_t size = entry & kLargeBit ? kLargePageSize : kPageSize;
    if (entry & kCacheDisableBit) return false;
    if (!memory.contains(physical, size)) ktest_fail(__FILE__, __LINE__, "a mapping of no memory");
    mapped += size;
    return true;
  });
  EXPECT(mapped >= memory.bytes());
  EXPECT(memory.bytes() >= memory_totals().total);
  EXPECT(memory.bytes() < memory_totals().total + memory_totals().total / 8 + (64 << 20));
}

KTEST(cross_calls_reach_every_cpu_from_several_at_once) {
  called_on = 0;
  calls = 0;
  callers_done = 0;
  for (unsigned i = 0; i < kCallers; i++) {
    Result<Task*> task = task_create("caller", call_many, nullptr);
    EXPECT(task.ok());
    if (task) task_start(*task);
  }
  while (callers_done < kCallers) task_yield();
  EXPECT(calls == kCallers * kCallsEach * cpu_count());
  EXPECT(std::popcount(called_on.load()) == static_cast<int>(cpu_count()));
}

KTEST(unmapping_is_seen_by_every_cpu) {
  const VirtualPage page;
  Result<PhysAddr> first = page_alloc(KM_SLEEP), second = page_alloc(KM_SLEEP);
  EXPECT(first.ok() && second.ok());
  *static_cast<uint32_t*>(direct_map(*first)) = 1;
  *static_cast<uint32_t*>(direct_map(*second)) = 2;
  void* const at = reinterpret_cast<void*>(page.address());
  EXPECT(map_kernel(page.address(), *first, kPageSize, Access::kRead).ok());
  EXPECT(read_word(at) == 1);
  on_each_cpu(read_and_keep, at);
  unmap_kernel(page.address(), kPageSize);
  EXPECT(map_kernel(page.address(), *second, kPageSize, Access::kRead).ok());
  on_each_cpu(
      [](void* argument) {
        if (read_word(argument) != 2)
          ktest_fail(__FILE__, __LINE__, "a CPU still sees what was mapped before");
      },
      at);
  unmap_kernel(page.address(), kPageSize);
  page_free(*first);
  page_free(*second);
}

KTEST(user_page_tables) {
  Result<PageTables> made = PageTables::create();
  EXPECT(made.ok());
  if (!made) return;
  PageTables tables = made.take();
  const uint64_t low = 0x400000, high = kUserEnd - kPageSize;
  EXPECT(tables.map(low, {0x5000}, false, true).ok());
  EXPECT(tables.map(high, {0x6000}, true, false, true).ok());
  EXPECT(tables.lookup(low).present && tables.lookup(low).executable &&
         !tables.lookup(low).writable);
  EXPECT(tables.lookup(high).physical == PhysAddr{0x6000} && tables.lookup(high).writable);
  EXPECT(!tables.lookup(low + kPageSize).present && !tables.lookup(0x700000000000).present);
  unsigned visited = 0;
  tables.for_each(0, kUserEnd, [&](uint64_t address, PageTables::Entry) {
    EXPECT(address == (visited == 0 ? low : high));
    visited++;
  });
  EXPECT(visited == 2);
  tables.write_protect(high);
  EXPECT(tables.lookup(high).present && !tables.lookup(high).writable);
  tables.protect(high, false, false, false);
  EXPECT(tables.lookup(high).is_lent && !tables.lookup(high).readable &&
         !tables.lookup(low).is_lent);
  EXPECT(tables.unmap(high).physical == PhysAddr{0x6000});
  EXPECT(!tables.lookup(high).present && !tables.unmap(high).present);
}

KTEST(bad_user_addresses_give_efault) {
  char buffer[16] = "unchanged";
  constexpr uint64_t kBad[] = {0,
                               0x1000,
                               kUserEnd - 8,
                               kUserEnd,
                               0x0000800000000000,
                               0x8000000000000000,
                               kDirectMapBase,
                               kKernelImageBase,
                               UINT64_MAX - 7,
                               UINT64_MAX};
  for (const uint64_t address : kBad) {
    const Result<void> from = copy_from_user(buffer, address, sizeof(buffer));
    EXPECT(!from && from.error() == Errno::EFAULT);
    const Result<void> to = copy_to_user(address, buffer, sizeof(buffer));
    EXPECT(!to && to.error() == Errno::EFAULT);
    const Result<size_t> string = copy_string_from_user(buffer, address, sizeof(buffer));
    EXPECT(!string && string.error() == Errno::EFAULT);
    EXPECT(!load_user_now(buffer, address, sizeof(buffer)));
  }
  EXPECT(copy_from_user(buffer, kUserEnd, 0).ok());
  const Result<void> wraps = copy_from_user(buffer, 0x1000, UINT64_MAX);
  EXPECT(!wraps && wraps.error() == Errno::EFAULT);
  EXPECT(strcmp(buffer, "unchanged") == 0);
}

KTEST(stack_walk_names_the_callers_and_ends) {
  const size_t n = walk_from_depth(5);
  EXPECT(n >= 8 && n < kMaxWalk);
  for (unsigned i = 0; i < 5; i++)
    EXPECT(strcmp(symbol_lookup(walked[i] - 1).name, "walk_from_depth") == 0);
  EXPECT(strcmp(symbol_lookup(walked[n - 2] - 1).name, "task_begin") == 0);
  EXPECT(walk_kernel_stack(0, walked, kMaxWalk) == 0);
  EXPECT(walk_kernel_stack(kDirectMapBase + 0x1000, walked, kMaxWalk) == 0);
  EXPECT(walk_kernel_stack(current_task()->stack_base - 8, walked, kMaxWalk) == 0);
  EXPECT(walk_kernel_stack(current_task()->stack_top() - 8, walked, kMaxWalk) == 0);
}

KTEST(stack_walk_in_an_interrupt_ends_at_its_entry) {
  static bool registered = false;
  if (!registered)
    EXPECT(interrupt_register_vector(kTestVector, "walk test", walk_in_interrupt, nullptr).ok());
  registered = true;
  interrupt_raise_self(kTestVector);
  while (__atomic_load_n(&interrupt_walk, __ATOMIC_ACQUIRE) == 0) task_yield();
  EXPECT(interrupt_walk <= 3);
  EXPECT(strcmp(symbol_lookup(walked[interrupt_walk - 1] - 1).name, "trap_entry") == 0);
}

// An NMI's handler sends NMIs itself. It may interrupt code that has written the destination of an
// interprocessor interrupt to the local APIC, but not yet the command. So the handler must leave
// the destination unchanged.
KTEST(an_nmi_to_all_leaves_the_destination_of_another_message) {
  constexpr uint64_t kCommandHigh = 0x310;  // offset in the local APIC
  constexpr uint32_t kDestination = 0x2a << 24;
  if (cpu_count() == 1 || local_apic_has_wide_ids()) return;  // one write sends in x2APIC mode
  const InterruptsOff off;
  auto& high = *reinterpret_cast<volatile uint32_t*>(kKernelVirtualBase + kCommandHigh);
  high = kDestination;
  stop_other_cpus();
  EXPECT(high == kDestination);
  // The other CPUs handle the NMI: one of them leads (core/nmi.cc) and sends NMIs to all others,
  // also to this CPU. This NMI arrives during the loop. The loop continues after all CPUs have
  // responded.
  const Nanoseconds end = monotonic_now() + Nanoseconds{100'000'000};
  while (monotonic_now() < end) cpu_relax();
  EXPECT(high == kDestination);
}

KTEST(guard_pages_are_known) {
  const uint64_t base = current_task()->stack_base;
  EXPECT(guard_page_name(base - 1) != nullptr);
  EXPECT(guard_page_name(base) == nullptr);
  EXPECT(guard_page_name(base - kPageSize - 1) == nullptr);
}

KTEST(time_goes_on) {
  const Nanoseconds before = monotonic_now();
  const Milliseconds coarse = coarse_milliseconds();
  EXPECT(task_sleep_until(before + Nanoseconds{30'000'000}).ok());
  EXPECT(monotonic_now() >= before + Nanoseconds{30'000'000});
  while (coarse_milliseconds() == coarse) task_yield();
  EXPECT(boot_wall_seconds() > 1'600'000'000);
}

KTEST(clocks_agree_about_the_time_stamp_counter) {
  unsigned measured = 0;
  for (unsigned i = 0; i < kReferenceClocks; i++) {
    const std::optional<ReferenceClock> clock = reference_clock(i);
    if (!clock) continue;
    const std::optional<ClockRate> rate = measure_rate(tsc_in_order, *clock);
    if (!rate) continue;
    measured++;
    const uint64_t difference =
        rate->hertz > tsc_hertz() ? rate->hertz - tsc_hertz() : tsc_hertz() - rate->hertz;
    if (difference > rate->doubt + tsc_hertz() / 1000) ktest_fail(__FILE__, __LINE__, clock->name);
  }
  EXPECT(measured > 0);
}

// If a CPU had a table of local descriptors at address 0, as after a reset, `lar` would read
// address 8, which is not mapped.
KTEST(no_cpu_has_local_descriptors) {
  on_each_cpu(
      [](void*) {
        constexpr uint64_t kLocalSelector = 0x0c;
        uint64_t rights;
        bool is_valid;
        asm volatile("larq %2, %1" : "=@ccz"(is_valid), "=r"(rights) : "r"(kLocalSelector));
        if (is_valid) ktest_fail(__FILE__, __LINE__, "a CPU has a table of local descriptors");
      },
      nullptr);
}

KTEST(boot_options) {
  size_t length;
  EXPECT(boot_option("ktest", &length) != nullptr);
  EXPECT(boot_option("ktes", &length) == nullptr);
  EXPECT(boot_option("no-such-option", &length) == nullptr);
}
