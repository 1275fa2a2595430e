#include "proc/elf.h"

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

Result<ElfSegments> elf_segments(Chan& file, const char* head, size_t head_size) {
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
  ElfSegments elf;
  elf.entry = header.entry;
  elf.count = header.program_header_count;
  const size_t size = elf.count * sizeof(ElfSegment);
  if (header.program_headers > INT64_MAX - size ||
      TRY(read_at(file, header.program_headers, elf.segments, size)) != size) {
    return not_executable("program headers are missing");
  }
  return elf;
}
