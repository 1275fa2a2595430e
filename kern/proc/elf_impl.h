// Reads the files of programs (static ELF64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/result.h"
#include "ns/device.h"

// A program header, as stored in the file.
struct ElfSegment {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_size, memory_size, align;
};
inline constexpr uint32_t kElfLoad = 1, kElfInterpreter = 3, kElfNote = 4;
inline constexpr uint32_t kElfExecutable = 1, kElfWritable = 2, kElfReadable = 4;
inline constexpr unsigned kMaxElfSegments = 16;

struct ElfSegments {
  uint64_t entry;
  uint64_t headers;  // offset of the program headers in the file
  unsigned count;
  ElfSegment segments[kMaxElfSegments];
};

// Reads the program headers of an open file into `elf`, which is too large for a kernel stack.
// `head` holds the first `head_size` bytes of the file. ENOEXEC, with the error string set, if the
// file is not an ELF executable for x86-64, or if its program headers are malformed. Errors of the
// device's read.
Result<void> elf_segments(Chan& file, const char* head, size_t head_size, ElfSegments& elf);
// Finds a section of the file by its name. The section need not be part of a segment. ENOENT if
// there is no section of this name, or if the section header table is malformed. Errors of the
// device's read.
struct ElfSection {
  uint64_t offset, size;
};
Result<ElfSection> elf_section(Chan& file, std::string_view name);
// Sets the error string, which ends with `why`, and returns ENOEXEC.
Errno not_executable(const char* why);
// Reads `size` bytes, or fewer at the end of the file. Returns the number of bytes.
Result<size_t> read_at(Chan& file, uint64_t offset, void* to, size_t size);
