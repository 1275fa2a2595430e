// Names of kernel functions and variables, from the tables that the build puts into the image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

struct Symbol {
  const char* name;  // without parameter list; nullptr if the address is in no function
  uint64_t offset;   // bytes from the function's start
};
// The function that contains `address`. For a return address look up address - 1. Any context;
// binary search.
Symbol symbol_lookup(uint64_t address);
// The variable in static memory that contains `address` or ends shortly before it. Any context;
// binary search. Names are not unique.
Symbol variable_lookup(uint64_t address);
// Writes "name+0x12 [kernel]" for a return address, or the address in hexadecimal if no function is
// found. Returns the length as format() does.
int symbol_format(char* buffer, size_t size, uint64_t return_address);
// All symbols in the order of their addresses; `index` is from 0 to symbol_count() - 1.
struct SymbolEntry {
  const char* name;
  uint64_t address;
};
size_t symbol_count();
SymbolEntry symbol_entry(size_t index);
// The build id of the kernel's ELF file, from the linker; empty if it has none.
std::span<const uint8_t> kernel_build_id();
