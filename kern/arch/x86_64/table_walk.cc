#include "arch/x86_64/table_walk.h"

#include <cstdint>

#include "arch/x86_64/context.h"
#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/kernel_tables.h"
#include "arch/x86_64/paging.h"

namespace {

constexpr uint64_t kLarge = 1 << 7;
constexpr unsigned kEntries = 512, kUserEntries = 256, kRootLevel = 3;

PhysAddr physical(uint64_t entry) {
  return {entry & kEntryAddress};
}
const uint64_t* entries_of(PhysAddr table) {
  return static_cast<const uint64_t*>(direct_map(table));
}
unsigned index_at(uint64_t address, unsigned level) {
  return address >> (kPageShift + 9 * level) & (kEntries - 1);
}

// stack: recursion up to 3 deep, because there are four levels of tables.
void walk_user(PhysAddr table, unsigned level, unsigned entries, TableVisitor& visitor) {
  if (!visitor.table(table)) return;
  const uint64_t* const entry = entries_of(table);
  for (unsigned i = 0; i < entries; i++) {
    if (!(entry[i] & (level > 0 ? kPresentEntry : kPresentEntry | kKeptEntry))) continue;
    if (level > 0) {
      walk_user(physical(entry[i]), level - 1, kEntries, visitor);
    } else {
      visitor.page(physical(entry[i]));
    }
  }
}

// Visits `table`, which is of level `level`, and the tables below its entries `first` to `end` - 1.
// stack: recursion up to 3 deep, because there are four levels of tables.
void walk_kernel(PhysAddr table, unsigned level, unsigned first, unsigned end,
                 void (*visit)(PhysAddr page, void* argument), void* argument) {
  visit(table, argument);
  const uint64_t* const entry = entries_of(table);
  for (unsigned i = first; level > 0 && i < end; i++) {
    if ((entry[i] & kPresentEntry) && !(entry[i] & kLarge))
      walk_kernel(physical(entry[i]), level - 1, 0, kEntries, visit, argument);
  }
}

// Returns the entry that maps an address of the kernel's half: the entry of a 4 KiB page or of a
// large page; 0 if the address is not mapped.
uint64_t kernel_entry(uint64_t address) {
  PhysAddr at = kernel_root_table();
  for (unsigned level = kRootLevel;; level--) {
    const uint64_t entry = entries_of(at)[index_at(address, level)];
    if (!(entry & kPresentEntry)) return 0;
    if (level == 0 || (level < kRootLevel && (entry & kLarge))) return entry;
    at = physical(entry);
  }
}

void visit_stack(uint64_t top, size_t size, void (*visit)(PhysAddr page, void* argument),
                 void* argument) {
  for (uint64_t address = top - size; address < top; address += kPageSize) {
    if (const PhysAddr page = physical(kernel_entry(address)); page.value != 0)
      visit(page, argument);
  }
}

}  // namespace

void walk_user_tables(PhysAddr root, TableVisitor& visitor) {
  if (root.value != 0) walk_user(root, kRootLevel, kUserEntries, visitor);
}

void walk_kernel_tables(void (*table)(PhysAddr page, void* argument), void* argument) {
  const unsigned first = index_at(kKernelVirtualBase, kRootLevel);
  const unsigned last = index_at(kKernelVirtualBase + kKernelVirtualSize - 1, kRootLevel);
  walk_kernel(kernel_root_table(), kRootLevel, first, last + 1, table, argument);
}

void walk_cpu_stacks(void (*page)(PhysAddr page, void* argument), void* argument) {
  for (unsigned id = 1; id < cpu_count(); id++) {
    const CpuTables& tables = cpu_tables(CpuId{id});
    visit_stack(tables.first_stack, kKernelStackSize, page, argument);
    for (unsigned i = 0; i < kIstCount; i++)
      visit_stack(tables.tss.ist[i], kIstStackSize, page, argument);
  }
}

bool is_kernel_mapped(uint64_t address) {
  constexpr uint64_t kCanonical = ~uint64_t{0} << 47;
  return (address & kCanonical) == kCanonical && kernel_entry(address) != 0;
}

CpuStack find_cpu_stack(uint64_t address) {
  constexpr const char* kNames[kIstCount] = {"DoubleFault", "Nmi", "MachineCheck"};
  static_assert(kIstDoubleFault == 1 && kIstNmi == 2 && kIstMachineCheck == 3);
  const auto below = [address](uint64_t top, size_t size) {
    return top != 0 && address < top && address >= top - size;
  };
  for (unsigned id = 0; id < cpu_count(); id++) {
    const CpuTables& tables = cpu_tables(CpuId{id});
    if (below(tables.first_stack, kKernelStackSize)) return {"", id, tables.first_stack - address};
    for (unsigned i = 0; i < kIstCount; i++) {
      const uint64_t top = tables.tss.ist[i];
      if (below(top, kIstStackSize)) return {kNames[i], id, top - address};
    }
  }
  return {};
}
