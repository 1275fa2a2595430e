#include "proc/user_probe_check.h"

#include <algorithm>

#include "core/errstr.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "lib/units.h"
#include "proc/elf.h"

namespace {

// The code in a program's file by address, read a page at a time: probes mostly come in order of
// address.
class Code {
 public:
  static Result<Code*> open(Chan& file) {
    void* const memory = kmalloc(sizeof(Code), KM_SLEEP);
    if (!memory) return Errno::ENOMEM;
    return new (memory) Code(file);
  }
  Result<void> read_segments() {
    const size_t size = TRY(read_at(file_, 0, page_, sizeof(page_)));
    elf_ = TRY(elf_segments(file_, page_, size));
    return {};
  }
  // Whether `expected` stands at `address`.
  Result<bool> matches(uint64_t address, std::span<const uint8_t> expected) {
    for (const uint8_t byte : expected) {
      const Result<int> found = byte_at(address++);
      if (!found) return found.error();
      if (const_cast<Result<int>&>(found).value() != byte) return false;
    }
    return true;
  }

 private:
  explicit Code(Chan& file) : file_(file) {}
  // -1 if no code is there.
  Result<int> byte_at(uint64_t address) {
    for (const ElfSegment& segment : std::span(elf_.segments, elf_.count)) {
      if (segment.type != kElfLoad || !(segment.flags & kElfExecutable) ||
          (segment.flags & kElfWritable))
        continue;
      if (address < segment.address || address - segment.address >= segment.file_size) continue;
      return file_byte(segment.offset + (address - segment.address));
    }
    return -1;
  }
  Result<int> file_byte(uint64_t offset) {
    const uint64_t start = align_down(offset, kPageSize);
    if (start != page_start_) {
      page_start_ = kNoPage;
      page_size_ = TRY(read_at(file_, start, page_, sizeof(page_)));
      page_start_ = start;
    }
    if (offset - start >= page_size_) return -1;
    return static_cast<uint8_t>(page_[offset - start]);
  }

  static constexpr uint64_t kNoPage = UINT64_MAX;
  Chan& file_;
  ElfSegments elf_{};
  uint64_t page_start_ = kNoPage;
  size_t page_size_ = 0;
  char page_[kPageSize];
};

Result<void> check(Code& code, std::span<const UserProbe> probes) {
  TRY(code.read_segments());
  constexpr uint8_t kReturn[] = {kReturnInstruction};
  for (const UserProbe& probe : probes) {
    if (!TRY(code.matches(probe.address, kFunctionNop)))
      return fail(Errno::EINVAL, "%lx: there begins no function that can be probed", probe.address);
    for (const uint64_t address : probe.returns) {
      if (!TRY(code.matches(address, kReturn)))
        return fail(Errno::EINVAL, "%lx: there is no `ret` instruction", address);
    }
  }
  return {};
}

}  // namespace

Result<void> user_probes_check(Chan& program, std::span<const UserProbe> probes) {
  Code* const code = TRY(Code::open(program));
  const Result<void> result = check(*code, probes);
  kfree(code);
  return result;
}
