// Names of kernel functions and variables. The build links the kernel twice. After the first link
// it makes a table of the functions. The second link puts this table into section .ksyms, which
// comes after all other read-only sections, so that no function moves. The format of the table:
//
//   u32 count; u32 address_offset[count]; u32 name_offset[count + 1];
//   char names[] (each ends with NUL)
//
// Addresses are offsets from kKernelImageBase, in ascending order. Names are demangled, without
// parameter lists. A second table describes the variables in the same way, but its addresses are
// offsets from data_start, because the tables that the second link adds move the data. An empty
// name begins a range that belongs to no variable.
#include "core/symbols.h"

#include "arch/x86_64/paging.h"
#include "lib/format.h"

extern "C" const uint32_t ksyms_start[], data_symbols[];
extern "C" const char text_start[], text_end[], data_start[], boot_stacks[];
extern "C" const uint32_t build_id_note_start[], build_id_note_end[];

namespace {

// Returns the symbol that begins at `offset`, or else the last symbol before `offset`.
Symbol look_up(const uint32_t* table, uint64_t offset) {
  const uint32_t count = table[0];
  const uint32_t* addresses = table + 1;
  const uint32_t* names = addresses + count;
  const char* text = reinterpret_cast<const char*>(names + count + 1);
  if (count == 0 || offset < addresses[0]) return {nullptr, 0};
  uint32_t low = 0, high = count;  // addresses[low] <= offset < addresses[high]
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (addresses[middle] <= offset) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return {text + names[low], offset - addresses[low]};
}

}  // namespace

Symbol symbol_lookup(uint64_t address) {
  if (address < reinterpret_cast<uint64_t>(text_start) ||
      address >= reinterpret_cast<uint64_t>(text_end)) {
    return {nullptr, 0};
  }
  return look_up(ksyms_start, address - kKernelImageBase);
}

Symbol variable_lookup(uint64_t address) {
  const auto start = reinterpret_cast<uint64_t>(data_start);
  if (address < start || address >= reinterpret_cast<uint64_t>(boot_stacks)) return {nullptr, 0};
  const Symbol found = look_up(data_symbols, address - start);
  return found.name && found.name[0] != '\0' ? found : Symbol{nullptr, 0};
}

int symbol_format(char* buffer, size_t size, uint64_t return_address) {
  const Symbol symbol = symbol_lookup(return_address - 1);
  if (!symbol.name) return format(buffer, size, "0x%lx", return_address);
  return format(buffer, size, "%s+0x%lx [kernel]", symbol.name, symbol.offset + 1);
}

size_t symbol_count() {
  return ksyms_start[0];
}

SymbolEntry symbol_entry(size_t index) {
  const uint32_t count = ksyms_start[0];
  const uint32_t* addresses = ksyms_start + 1;
  const uint32_t* names = addresses + count;
  return {reinterpret_cast<const char*>(names + count + 1) + names[index],
          kKernelImageBase + addresses[index]};
}

// The build id is stored as the description of an ELF note. The note has these words: size of the
// name, size of the description, type. The name ("GNU") and the description follow.
std::span<const uint8_t> kernel_build_id() {
  constexpr size_t kHeaderWords = 4;
  if (build_id_note_end - build_id_note_start < static_cast<ptrdiff_t>(kHeaderWords)) return {};
  return {reinterpret_cast<const uint8_t*>(build_id_note_start + kHeaderWords),
          build_id_note_start[1]};
}
