// Page tables with four levels (Intel SDM volume 3, section 4.5).
//
// The kernel's half (entries 256 to 511 of the root) is made once. It has the direct map, the
// kernel virtual range with its second-level tables, and the image. Every user root copies those
// 256 entries, so all roots see later kernel mappings. Tables of the kernel virtual range are never
// freed. Kernel mappings are global; each lives until unmap_kernel has invalidated it on every CPU.
//
// The image is mapped with exactly the rights that its segments need: no page is both writable and
// executable; guard pages below the first stacks stay unmapped. In the direct map the image's code
// and constants are read-only too. To patch code, text_write maps the code writable at two pages.
// Each CPU has two such pages of its own and uses them with interrupts off, so no other CPU ever
// caches the mapping. No kernel mapping is reachable from user mode.
//
// A set of user tables has a bit for each CPU on which it is active. The bit is set before the CPU
// loads the tables, and cleared after the CPU has loaded others. So flush() interrupts only CPUs
// that may have cached translations: a CPU that loads the tables later starts with an empty cache
// (only global entries survive). The CPU that changes an entry invalidates that page on itself. If
// the task then moves to another CPU, it finds no old translation there, because the scheduler then
// activates the tables on that CPU again. Processors also cache entries that lead to tables. So a
// table is freed either after flush() (remove_empty), or with all tables of its set, when the set
// is active on no CPU (free_tables). activate() never skips the load, even if the tables are active
// there already.
#include "arch/x86_64/paging.h"

#include <algorithm>
#include <utility>

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/context.h"
#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/fixed_devices_impl.h"
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/kernel_tables.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/table_walk.h"
#include "arch/x86_64/tlb_check.h"
#include "core/boot.h"
#include "core/log.h"
#include "core/planted.h"
#include "core/probe_guard.h"
#include "core/spinlock.h"
#include "lib/string.h"
#include "pages.h"
#include "slab.h"

extern "C" const char image_start[], text_start[], text_end[], rodata_start[], rodata_end[],
    data_start[], data_end[];
extern "C" char boot_stacks[], boot_stack_top[];

namespace {

constexpr uint64_t kPresent = kPresentEntry, kWritable = 1 << 1, kUser = kUserEntry,
                   kWriteThrough = 1 << 3, kUncached = 1 << 4, kDirty = 1 << 6, kLarge = 1 << 7,
                   kGlobal = 1 << 8, kNoExecute = kNoExecuteEntry;
// Set in an entry that is not present for the processor but still holds a page, to which no access
// is allowed (PageTables::protect). The processor ignores the bit.
constexpr uint64_t kKept = kKeptEntry;
constexpr uint64_t kLent = 1 << 10;  // PageTables::Entry::is_lent; the processor ignores the bit
constexpr uint64_t kAddressMask = kEntryAddress;
// cpu_setup() has changed what this bit alone selects, from write-through to write-combining.
constexpr uint64_t kWriteCombining = kWriteThrough;
constexpr unsigned kEntries = 512;
constexpr unsigned kUserEntries = 256;
constexpr uint64_t kLargePage = 2 << 20;

constinit PhysAddr kernel_root{};
constinit Spinlock kernel_lock{LockRank::kPageTable};
constinit bool from_page_arena = false;
// Number of the kernel's own page tables that came from the page arena; each is a page. Changed
// under kernel_lock, read without a lock.
constinit uint64_t kernel_tables = 0;

// The range at which text_write() maps code: two pages for each CPU. The range lies after the pages
// of the interrupt controllers.
constexpr uint64_t kTextWindow = kKernelVirtualBase + (1 << 20);
constexpr unsigned kWindowPages = 2;
static_assert((1 << 20) + kMaxCpus * kWindowPages * kPageSize <= kKernelVirtualReserved);
// The page-table entry of the first page at kTextWindow. The entries of all CPUs' pages follow in
// the same table.
constinit uint64_t* text_window_entries = nullptr;

uint64_t* table_of(uint64_t entry) {
  return static_cast<uint64_t*>(direct_map({entry & kAddressMask}));
}
// The address behind the range that one table entry of this level covers.
uint64_t end_of_entry(uint64_t address, unsigned level) {
  const uint64_t covered = uint64_t{kPageSize} << (9 * level);
  return align_down(address, covered) + covered;
}
unsigned index_at(uint64_t address, unsigned level) {
  return address >> (kPageShift + 9 * level) & (kEntries - 1);
}

Result<PhysAddr> new_table(int flags) {
  if (from_page_arena) return page_alloc(flags | KM_ZERO);
  void* table = early_alloc(kPageSize, kPageSize);
  memset(table, 0, kPageSize);
  return direct_map_phys(table);
}

// Returns the entry for `address` in the table of level `target` (0: pages, 1: 2 MiB). Makes tables
// that are missing on the way, and adds their number to `*made`.
Result<uint64_t*> make_entry(PhysAddr root, uint64_t address, unsigned target, uint64_t table_flags,
                             int flags, std::atomic<uint64_t>* made = nullptr) {
  uint64_t* table = table_of(root.value);
  for (unsigned level = 3; level > target; level--) {
    uint64_t& entry = table[index_at(address, level)];
    if (!(entry & kPresent)) {
      entry = TRY(new_table(flags)).value | kPresent | kWritable | table_flags;
      if (made) made->fetch_add(1, std::memory_order_relaxed);
      if (root == kernel_root && from_page_arena) {
        __atomic_fetch_add(&kernel_tables, 1, __ATOMIC_RELAXED);
        kmem_not_leak(table_of(entry));  // kept for the next kernel stacks
      }
    }
    table = table_of(entry);
  }
  return &table[index_at(address, target)];
}

// Returns the entry of a 4 KiB page, or nullptr if a table on the way is missing.
uint64_t* find_entry(PhysAddr root, uint64_t address) {
  uint64_t* table = table_of(root.value);
  for (unsigned level = 3; level > 0; level--) {
    const uint64_t entry = table[index_at(address, level)];
    if (!(entry & kPresent)) return nullptr;
    table = table_of(entry);
  }
  return &table[index_at(address, 0)];
}

uint64_t bits_of(Access access) {
  switch (access) {
    case Access::kRead:
      return kPresent | kGlobal | kNoExecute;
    case Access::kReadWrite:
      return kPresent | kGlobal | kNoExecute | kWritable;
    case Access::kReadExecute:
      return kPresent | kGlobal;
    case Access::kDevice:
      return kPresent | kGlobal | kNoExecute | kWritable | kUncached | kWriteThrough;
    case Access::kScreen:
      return kPresent | kGlobal | kNoExecute | kWritable | kWriteCombining;
  }
  __builtin_unreachable();
}

Result<void> map_pages(uint64_t address, PhysAddr physical, size_t size, Access access) {
  for (size_t offset = 0; offset < size; offset += kPageSize) {
    *TRY(make_entry(kernel_root, address + offset, 0, 0, KM_ATOMIC)) =
        (physical.value + offset) | bits_of(access);
  }
  return {};
}

void must(Result<void> result) {
  if (!result) panic("no memory for page tables at boot");
}

void map_image(const char* start, const char* end, Access access) {
  const uint64_t first = align_down(reinterpret_cast<uint64_t>(start), kPageSize);
  const uint64_t last = align_up(reinterpret_cast<uint64_t>(end), kPageSize);
  must(map_pages(first, {first - kKernelImageBase}, last - first, access));
}

// True for pages of the image's code and constants. The direct map maps these pages read-only.
bool is_constant(uint64_t physical) {
  const auto page_of = [](const char* symbol) {
    return align_down(reinterpret_cast<uint64_t>(symbol) - kKernelImageBase, kPageSize);
  };
  return (physical >= page_of(text_start) && physical < page_of(text_end + kPageSize - 1)) ||
         (physical >= page_of(rodata_start) && physical < page_of(rodata_end + kPageSize - 1));
}

// Maps the memory in the 2 MiB at `address`, which is a multiple of 2 MiB. A large page maps memory
// only: registers of devices, which may lie between, have another memory type, and the effect of a
// large page over several types is not defined (Intel SDM volume 3, section 12.11.9). A CPU could
// also read ahead from registers.
void map_direct(uint64_t address) {
  const MemoryMap& memory = boot_info().memory;
  bool any_constant = false;
  for (uint64_t at = address; at < address + kLargePage; at += kPageSize)
    any_constant |= is_constant(at);
  if (!any_constant && memory.contains(address, kLargePage)) {
    *make_entry(kernel_root, kDirectMapBase + address, 1, 0, 0).take() =
        address | bits_of(Access::kReadWrite) | kLarge;
    return;
  }
  for (uint64_t at = address; at < address + kLargePage; at += kPageSize) {
    if (!memory.contains(at, kPageSize)) continue;
    must(map_pages(kDirectMapBase + at, {at}, kPageSize,
                   is_constant(at) ? Access::kRead : Access::kReadWrite));
  }
}

// Maps all memory; the holes between stay unmapped.
void map_direct_ranges() {
  uint64_t mapped = 0;  // the end of what is mapped
  for (const MemoryRange& range : boot_info().memory.ranges()) {
    const uint64_t start = align_down(range.start.value, kLargePage);
    const uint64_t end = range.start.value + range.size;
    for (uint64_t address = std::max(start, mapped); address < end; address += kLargePage) {
      map_direct(address);
      mapped = address + kLargePage;
    }
  }
}

bool in_guard(uint64_t address, uint64_t stack_top, size_t stack_size) {
  return stack_top != 0 && address < stack_top - stack_size &&
         address >= stack_top - stack_size - kPageSize;
}

struct Range {
  uint64_t start, end;
};
void invalidate(void* argument) {
  const Range& range = *static_cast<Range*>(argument);
  for (uint64_t address = range.start; address < range.end; address += kPageSize)
    invalidate_page(address);
  translations_invalidated(range.start, range.end);
}
void invalidate_one(uint64_t address) {
  Range page{address, address + kPageSize};
  invalidate(&page);
}

// True if a processor that uses the old entry may do more, or access another page, than the new
// entry allows.
bool is_narrower(uint64_t before, uint64_t after) {
  if (!(before & kPresent)) return false;
  if (!(after & kPresent) || ((before ^ after) & kAddressMask)) return true;
  const bool stores_unseen = (before & kWritable) && (before & ~after & kDirty);
  return (before & ~after & kWritable) || (~before & after & kNoExecute) || stores_unseen;
}

PageTables::Entry decode(uint64_t entry) {
  if (!(entry & (kPresent | kKept))) return {};
  return {{entry & kAddressMask},    true,
          (entry & kPresent) != 0,   (entry & kWritable) != 0,
          (entry & kNoExecute) == 0, (entry & kDirty) != 0,
          (entry & kLent) != 0};
}

// stack: recursion up to 3 deep, because there are four levels of tables.
void free_tables(PhysAddr table, unsigned level, unsigned entries) {
  const uint64_t* entry = table_of(table.value);
  for (unsigned i = 0; level > 0 && i < entries; i++) {
    if (entry[i] & kPresent) free_tables({entry[i] & kAddressMask}, level - 1, kEntries);
  }
  page_free(table);
}

bool is_empty(const uint64_t* table) {
  return std::all_of(table, table + kEntries, [](uint64_t entry) { return entry == 0; });
}

// `table` is a table of level `level`. Removes empty tables below it, for addresses in [start,
// end). The processor also caches entries that lead to tables, so `take` must invalidate them.
// stack: recursion up to 3 deep, because there are four levels of tables.
void remove_empty_below(uint64_t* table, unsigned level, uint64_t start, uint64_t end,
                        PageTables::TakeTable take, void* argument) {
  for (uint64_t at = start; at < end; at = end_of_entry(at, level)) {
    uint64_t& entry = table[index_at(at, level)];
    if (!(entry & kPresent)) continue;
    uint64_t* const below = table_of(entry);
    if (level > 1) {
      remove_empty_below(below, level - 1, at, std::min(end, end_of_entry(at, level)), take,
                         argument);
    }
    if (!is_empty(below)) continue;
    const PhysAddr taken{entry & kAddressMask};
    __atomic_store_n(&entry, 0, __ATOMIC_RELAXED);
    take(argument, taken, at);
  }
}

// If a range has more bytes than this, forget() invalidates all of user space instead of single
// pages.
constexpr uint64_t kForgetOneByOne = 8 * kPageSize;

struct Forgotten {
  uint64_t root;
  Range range;
};
void forget(void* argument) {
  Forgotten& what = *static_cast<Forgotten*>(argument);
  if ((read_cr3() & kAddressMask) != what.root) return;
  __atomic_fetch_add(&cpu_tables(cpu_id()).flushes, 1, __ATOMIC_RELAXED);
  if (what.range.end - what.range.start <= kForgetOneByOne) {
    if (!planted(Planted::kTlbForgetPages)) invalidate(&what.range);
  } else if (!planted(Planted::kTlbForgetAll)) {
    translations_loading({what.root});
    write_cr3(what.root);
  }
}

void map_fixed_device(FixedDevice device, PhysAddr registers) {
  static_assert(static_cast<uint64_t>(FixedDevice::kEnd) * kPageSize <=
                kTextWindow - kKernelVirtualBase);
  if (registers.value == 0) return;
  const uint64_t page = kKernelVirtualBase + static_cast<uint64_t>(device) * kPageSize;
  must(map_pages(page, {align_down(registers.value, kPageSize)}, kPageSize, Access::kDevice));
}

void map_fixed_devices() {
  const AcpiInfo& acpi = acpi_info();
  map_fixed_device(FixedDevice::kLocalApic, acpi.local_apic);
  for (unsigned i = 0; i < acpi.io_apic_count; i++)
    map_fixed_device(io_apic_device(i), acpi.io_apics[i].address);
  map_fixed_device(FixedDevice::kHpet, acpi.hpet);
  if (!acpi.power.sleep.is_port) map_fixed_device(FixedDevice::kSleep, {acpi.power.sleep.address});
  if (!acpi.power.reset.is_port) map_fixed_device(FixedDevice::kReset, {acpi.power.reset.address});
}

}  // namespace

void paging_init() {
  kernel_root = new_table(0).take();
  map_direct_ranges();
  // Makes the second-level tables of the kernel virtual range, so that all roots share them from
  // the start.
  for (uint64_t offset = 0; offset < kKernelVirtualSize; offset += uint64_t{1} << 39) {
    static_cast<void>(make_entry(kernel_root, kKernelVirtualBase + offset, 2, 0, 0));
  }
  map_image(text_start, text_end, Access::kReadExecute);
  map_image(rodata_start, rodata_end, Access::kRead);
  map_image(data_start, data_end, Access::kReadWrite);
  const uint64_t top = reinterpret_cast<uint64_t>(boot_stack_top);
  *find_entry(kernel_root, reinterpret_cast<uint64_t>(boot_stacks)) = 0;
  for (unsigned i = 0; i < kIstCount; i++)
    *find_entry(kernel_root, top + i * (kPageSize + kIstStackSize)) = 0;

  map_fixed_devices();
  text_window_entries = find_entry(kernel_root, kTextWindow);
  write_cr3(kernel_root.value);
}

// Called for each patch of a probed site, so it calls no function that could be probed.
NOT_PROBED void text_write(uint64_t address, const uint8_t* bytes, size_t size) {
  const InterruptsOff off;
  const unsigned first = number_of(cpu_id()) * kWindowPages;
  const uint64_t window = kTextWindow + uint64_t{first} * kPageSize;
  const uint64_t in_page = address % kPageSize, physical = address - in_page - kKernelImageBase;
  const unsigned pages = in_page + size > kPageSize ? kWindowPages : 1;
  for (unsigned i = 0; i < pages; i++) {
    __atomic_store_n(&text_window_entries[first + i],
                     (physical + i * kPageSize) | kPresent | kWritable | kNoExecute,
                     __ATOMIC_SEQ_CST);
  }
  auto* const to = reinterpret_cast<uint8_t*>(window + in_page);
  for (size_t i = 0; i < size; i++) __atomic_store_n(&to[i], bytes[i], __ATOMIC_RELAXED);
  for (unsigned i = 0; i < pages; i++) {
    __atomic_store_n(&text_window_entries[first + i], 0, __ATOMIC_SEQ_CST);
    const uint64_t page = window + i * kPageSize;
    const std::atomic<uint64_t> me{uint64_t{1} << number_of(cpu_id())};
    translation_is_invalid(kernel_root, me, {page});
    if (!planted(Planted::kTlbText)) {
      invalidate_page(page);
      translations_invalidated(page, page + kPageSize);
    }
    check_translations(kernel_root, page, page + kPageSize);
  }
}

void paging_use_page_arena() {
  from_page_arena = true;
}

uint64_t kernel_table_bytes() {
  return __atomic_load_n(&kernel_tables, __ATOMIC_RELAXED) * kPageSize;
}

PhysAddr kernel_root_table() {
  return kernel_root;
}

const char* guard_page_name(uint64_t address) {
  if (in_guard(address, this_cpu().kernel_stack, kKernelStackSize))
    return "stack of the current task";
  for (unsigned id = 0; id < kMaxCpus; id++) {
    const CpuTables& tables = cpu_tables(CpuId{id});
    if (in_guard(address, tables.first_stack, kKernelStackSize)) return "first stack of a CPU";
    for (unsigned i = 0; i < kIstCount; i++) {
      if (in_guard(address, tables.tss.ist[i], kIstStackSize)) return "interrupt stack";
    }
  }
  return nullptr;
}

Result<void> map_kernel(uint64_t address, PhysAddr physical, size_t size, Access access) {
  const Guard guard(kernel_lock);
  return map_pages(address, physical, size, access);
}

void unmap_kernel(uint64_t address, size_t size) {
  {
    const Guard guard(kernel_lock);
    for (size_t offset = 0; offset < size; offset += kPageSize) {
      uint64_t* const entry = find_entry(kernel_root, address + offset);
      if (!entry) continue;
      const uint64_t before = __atomic_exchange_n(entry, 0, __ATOMIC_RELAXED);
      if (before & kPresent)
        translation_is_invalid_everywhere(kernel_root, {address + offset, {before & kAddressMask}});
    }
  }
  Range range{address, address + size};
  if (!planted(Planted::kTlbKernel)) on_each_cpu(invalidate, &range);
  check_translations(kernel_root, address, address + size);
}

Result<PageTables> PageTables::create() {
  PageTables tables;
  tables.root_ = TRY(page_alloc(KM_SLEEP | KM_ZERO));
  memcpy(table_of(tables.root_.value) + kUserEntries, table_of(kernel_root.value) + kUserEntries,
         (kEntries - kUserEntries) * sizeof(uint64_t));
  return tables;
}

PageTables& PageTables::operator=(PageTables&& other) noexcept {
  if (this != &other) {
    ASSERT(cpus_.load(std::memory_order_acquire) == 0);
    if (root_.value) free_tables(root_, 3, kUserEntries);
    root_ = other.root_;
    count_ = other.count();
    other.root_ = {};
  }
  return *this;
}

PageTables::~PageTables() {
  ASSERT(cpus_.load(std::memory_order_acquire) == 0);
  if (root_.value) free_tables(root_, 3, kUserEntries);
}

Result<void> PageTables::map(uint64_t address, PhysAddr physical, bool writable, bool executable,
                             bool is_lent) {
  uint64_t* entry = TRY(make_entry(root_, address, 0, kUser, KM_SLEEP, &count_));
  const uint64_t before = *entry;
  const uint64_t bits = kPresent | kUser | (writable ? kWritable : 0) |
                        (executable ? 0 : kNoExecute) | (is_lent ? kLent : 0);
  __atomic_store_n(entry, physical.value | bits, __ATOMIC_RELAXED);
  changed(address, before, physical.value | bits, Planted::kTlbMap);
  return {};
}

void PageTables::changed(uint64_t address, uint64_t before, uint64_t after, Planted omission) {
  if (!(before & kPresent)) return;
  if (is_narrower(before, after)) {
    const bool is_gone = after == 0 || ((before ^ after) & kAddressMask);
    translation_is_invalid(root_, cpus_,
                           {address, is_gone ? PhysAddr{before & kAddressMask} : PhysAddr{}});
  }
  if (!planted(omission)) invalidate_one(address);
}

PageTables::Entry PageTables::lookup(uint64_t address) const {
  const uint64_t* entry = find_entry(root_, address);
  return entry ? decode(*entry) : Entry{};
}

PageTables::Entry PageTables::unmap(uint64_t address) {
  uint64_t* entry = find_entry(root_, address);
  if (!entry) return {};
  const uint64_t before = __atomic_exchange_n(entry, 0, __ATOMIC_RELAXED);
  changed(address, before, 0, Planted::kTlbUnmap);
  return decode(before);
}

void PageTables::remove_empty(uint64_t start, uint64_t end, TakeTable take, void* argument) {
  struct Taker {
    PageTables& from;
    TakeTable take;
    void* argument;
  } taker{*this, take, argument};
  const auto count_and_take = [](void* of, PhysAddr table, uint64_t address) {
    const Taker& to = *static_cast<Taker*>(of);
    to.from.count_.fetch_sub(1, std::memory_order_relaxed);
    translation_is_invalid(to.from.root_, to.from.cpus_, {address, table, true});
    // INVLPG of any page invalidates all cached entries that lead to tables (section 4.10.4.1).
    if (!planted(Planted::kTlbTable)) invalidate_one(address);
    to.take(to.argument, table, address);
  };
  remove_empty_below(table_of(root_.value), 3, start, end, count_and_take, &taker);
}

void PageTables::write_protect(uint64_t address) {
  if (uint64_t* entry = find_entry(root_, address)) {
    const uint64_t before = __atomic_fetch_and(entry, ~kWritable, __ATOMIC_RELAXED);
    changed(address, before, before & ~kWritable, Planted::kTlbWriteProtect);
  }
}

void PageTables::protect(uint64_t address, bool readable, bool writable, bool executable) {
  uint64_t* entry = find_entry(root_, address);
  if (!entry || !decode(*entry).present) return;
  const uint64_t bits = kUser | (readable ? kPresent : kKept) | (writable ? kWritable : 0) |
                        (executable ? 0 : kNoExecute);
  // The processor may set kDirty meanwhile; then the exchange fails and is repeated.
  uint64_t before = __atomic_load_n(entry, __ATOMIC_RELAXED);
  const auto after = [&] { return (before & (kAddressMask | kDirty | kLent)) | bits; };
  while (!__atomic_compare_exchange_n(entry, &before, after(), false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
    continue;
  changed(address, before, after(), Planted::kTlbProtect);
}

void PageTables::clean(uint64_t address) {
  if (uint64_t* entry = find_entry(root_, address)) {
    const uint64_t before = __atomic_fetch_and(entry, ~kDirty, __ATOMIC_RELAXED);
    changed(address, before, before & ~kDirty, Planted::kTlbClean);
  }
}

PageTables::Entry PageTables::next_present(uint64_t* address, uint64_t end) const {
  uint64_t at = *address;
  while (at < end) {
    const uint64_t* table = table_of(root_.value);
    unsigned level = 3;
    while (level > 0 && (table[index_at(at, level)] & kPresent)) {
      table = table_of(table[index_at(at, level)]);
      level--;
    }
    if (level > 0) {
      at = end_of_entry(at, level);
      continue;
    }
    // One walk for all absent pages of a table: a large range has few present ones.
    const uint64_t* entry = &table[index_at(at, 0)];
    const uint64_t end_of_table = std::min(end, end_of_entry(at, 1));
    for (; at < end_of_table; at += kPageSize, entry++) {
      const Entry found = decode(*entry);
      if (!found.present) continue;
      *address = at;
      return found;
    }
  }
  *address = end;
  return {};
}

void PageTables::flush(uint64_t start, uint64_t end) const {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  const uint64_t others =
      cpus_.load(std::memory_order_relaxed) & ~(uint64_t{1} << number_of(cpu_id()));
  if (others == 0 || planted(Planted::kTlbFlush)) return;
  Forgotten what{root_.value, {start, end}};
  call_on_cpus(others, forget, &what);
}

uint64_t PageTables::flushes(CpuId cpu) {
  return __atomic_load_n(&cpu_tables(cpu).flushes, __ATOMIC_RELAXED);
}

void PageTables::load(PageTables* tables) {
  CpuTables& cpu = cpu_tables(cpu_id());
  PageTables* const before = std::exchange(cpu.user_tables, tables);
  const uint64_t me = uint64_t{1} << number_of(cpu.cpu.id);
  if (tables && tables != before) tables->cpus_.fetch_or(me);
  if (tables) translations_loading(tables->root_);
  write_cr3(tables ? tables->root_.value : kernel_root.value);
  if (before && before != tables) translations_left(before->root_, before->cpus_, me);
}

void PageTables::activate() {
  load(this);
}

void PageTables::activate_kernel() {
  load(nullptr);
}
