// Structures of ELF files, and bounds-checked access to the bytes of such a file.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace elf {

// The structures of the System V ABI, edition 4.1, chapter 4, with the 64-bit types of the ABI's
// supplement for x86-64.
struct FileHeader {
  uint8_t identification[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t size, program_header_size, program_header_count, section_header_size,
      section_header_count, names;
};
static_assert(sizeof(FileHeader) == 64);
struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
};
static_assert(sizeof(SectionHeader) == 64);
struct SymbolEntry {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
};
static_assert(sizeof(SymbolEntry) == 24);
struct NoteHeader {
  uint32_t name_size, description_size, type;
};
inline constexpr uint32_t kSymbolTable = 2, kNotes = 7;  // section types SHT_SYMTAB, SHT_NOTE
inline constexpr uint8_t kFunction = 2;                  // symbol type STT_FUNC
inline constexpr uint32_t kBuildId = 3;                  // note type NT_GNU_BUILD_ID

// Reads the T at this offset. Returns nothing if the file ends before the T does.
template <typename T>
std::optional<T> at(std::string_view file, uint64_t offset) {
  T value;
  if (offset > file.size() || file.size() - offset < sizeof(T)) return {};
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

inline std::string_view part(std::string_view file, uint64_t offset, uint64_t size) {
  return offset > file.size() ? std::string_view() : file.substr(offset, size);
}

}  // namespace elf
