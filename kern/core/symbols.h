// Names of kernel functions and variables, from the tables that the build puts into the image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

struct Symbol {
  const char* name;  // a function's name has no parameter list; nullptr: nothing found
  uint64_t offset;   // bytes from the start of the function or variable
};
// Finds the function that contains `address`. For a return address, pass address - 1, because the
// call may be the function's last instruction. Any context. Binary search.
Symbol symbol_lookup(uint64_t address);
// Finds the variable in static memory that contains `address` or ends less than 64 bytes before it.
// Several variables may have the same name. Any context. Binary search.
Symbol variable_lookup(uint64_t address);
// Writes "name+0x12 [kernel]" for a return address, or the address in hexadecimal if no function is
// found. Returns the length as format() does.
int symbol_format(char* buffer, size_t size, uint64_t return_address);
// A function of the kernel. symbol_entry() returns the functions in the order of their addresses;
// `index` is from 0 to symbol_count() - 1.
struct SymbolEntry {
  const char* name;
  uint64_t address;
};
size_t symbol_count();
SymbolEntry symbol_entry(size_t index);
// The build id that the linker has put into the kernel's ELF file; empty if there is none.
std::span<const uint8_t> kernel_build_id();
