#include "proc/elf_impl.h"

#include "core/errstr.h"
#include "lib/string.h"

namespace {

struct ElfHeader {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t header_size, program_header_size, program_header_count, section_header_size,
      section_header_count, names;
};
constexpr uint8_t kElfIdent[] = {0x7f, 'E', 'L', 'F',
                                 2,    1,   1};  // 64 bits, little-endian, version 1
constexpr uint16_t kTypeExecutable = 2, kMachineX86_64 = 62;

struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t align, entry_size;
};
constexpr size_t kMaxSectionName = 32;

// Reads `size` bytes at `offset` of the file. False if the file has fewer bytes there. `offset` was
// read from the file, so it may have any value.
Result<bool> read_whole(Chan& file, uint64_t offset, void* to, size_t size) {
  if (offset > INT64_MAX - size) return false;
  return TRY(read_at(file, offset, to, size)) == size;
}

}  // namespace

Result<size_t> read_at(Chan& file, uint64_t offset, void* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const size_t got =
        TRY(file.device->read(file, static_cast<char*>(to) + done, size - done, offset + done));
    if (got == 0) break;
    done += got;
  }
  return done;
}

Errno not_executable(const char* why) {
  return fail(Errno::ENOEXEC, "not an executable of this system: %s", why);
}

Result<void> elf_segments(Chan& file, const char* head, size_t head_size, ElfSegments& elf) {
  ElfHeader header;
  if (head_size < sizeof(header)) return not_executable("neither ELF nor a script");
  memcpy(&header, head, sizeof(header));
  if (memcmp(header.ident, kElfIdent, sizeof(kElfIdent)) != 0)
    return not_executable("neither ELF nor a script");
  if (header.type != kTypeExecutable || header.machine != kMachineX86_64)
    return not_executable("not a static x86-64 program");
  if (header.program_header_size != sizeof(ElfSegment) || header.program_header_count == 0 ||
      header.program_header_count > kMaxElfSegments) {
    return not_executable("wrong program headers");
  }
  elf.entry = header.entry;
  elf.headers = header.program_headers;
  elf.count = header.program_header_count;
  const size_t size = elf.count * sizeof(ElfSegment);
  if (header.program_headers > INT64_MAX - size ||
      TRY(read_at(file, header.program_headers, elf.segments, size)) != size) {
    return not_executable("program headers are missing");
  }
  return {};
}

Result<ElfSection> elf_section(Chan& file, std::string_view name) {
  ElfHeader header;
  if (name.size() >= kMaxSectionName) return Errno::ENOENT;
  if (!TRY(read_whole(file, 0, &header, sizeof(header))) ||
      header.section_header_size != sizeof(SectionHeader) || header.section_headers > INT64_MAX)
    return Errno::ENOENT;
  const auto at = [&](uint64_t index) {
    return header.section_headers + index * sizeof(SectionHeader);
  };
  SectionHeader names;
  if (!TRY(read_whole(file, at(header.names), &names, sizeof(names)))) return Errno::ENOENT;
  for (uint16_t i = 0; i < header.section_header_count; i++) {
    SectionHeader section;
    if (!TRY(read_whole(file, at(i), &section, sizeof(section)))) return Errno::ENOENT;
    char text[kMaxSectionName] = {};
    uint64_t place;
    if (__builtin_add_overflow(names.offset, section.name, &place) ||
        !TRY(read_whole(file, place, text, name.size() + 1)))
      continue;
    if (name == text) return ElfSection{section.offset, section.size};
  }
  return Errno::ENOENT;
}
