// What is read of programs' files: static ELF64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/result.h"
#include "ns/device.h"

// A program header, as it stands in the file.
struct ElfSegment {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_size, memory_size, align;
};
inline constexpr uint32_t kElfLoad = 1, kElfInterpreter = 3, kElfNote = 4;
inline constexpr uint32_t kElfExecutable = 1, kElfWritable = 2, kElfReadable = 4;
inline constexpr unsigned kMaxElfSegments = 16;

struct ElfSegments {
  uint64_t entry;
  uint64_t headers;  // where in the file the program headers lie
  unsigned count;
  ElfSegment segments[kMaxElfSegments];
};

// The segments of the program in an open file, of which `head` holds the first `head_size` bytes.
// ENOEXEC, with the error string set, if it is no static program of this machine; what reading
// gives.
Result<ElfSegments> elf_segments(Chan& file, const char* head, size_t head_size);
// Where in the file a section of it lies that is not loaded. ENOENT if it has none of the name, or
// its table of sections is no such; what reading gives.
struct ElfSection {
  uint64_t offset, size;
};
Result<ElfSection> elf_section(Chan& file, std::string_view name);
// Sets the error string to `why` and returns ENOEXEC.
Errno not_executable(const char* why);
// Reads `size` bytes, or as many as there are.
Result<size_t> read_at(Chan& file, uint64_t offset, void* to, size_t size);
