#include "proc/user_probe_check_impl.h"

#include <algorithm>

#include "core/errstr.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "lib/units.h"
#include "proc/elf_impl.h"

namespace {

// Returns single bytes of a file. Reads the file by pages and caches the page that was read last,
// because probes usually come in order of address.
class Pages {
 public:
  explicit Pages(Chan& file) : file_(file) {}

  Chan& file() { return file_; }
  // Returns the memory of the cached page for another use by the caller. The cached contents are
  // forgotten.
  std::span<char> room() {
    start_ = kNoPage;
    return page_;
  }
  // Returns the byte at `offset`; -1 after the end of the file.
  Result<int> byte(uint64_t offset) {
    const uint64_t start = align_down(offset, kPageSize);
    if (start != start_) {
      start_ = kNoPage;
      size_ = TRY(read_at(file_, start, page_, sizeof(page_)));
      start_ = start;
    }
    if (offset - start >= size_) return -1;
    return static_cast<uint8_t>(page_[offset - start]);
  }
  // Reads a little-endian number of `size` bytes; bytes after the end of the file read as 0xff.
  Result<uint64_t> number(uint64_t offset, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
      value |= uint64_t{static_cast<uint8_t>(TRY(byte(offset + i)))} << 8 * i;
    return value;
  }

 private:
  static constexpr uint64_t kNoPage = UINT64_MAX;
  Chan& file_;
  uint64_t start_ = kNoPage;
  size_t size_ = 0;
  char page_[kPageSize];
};

// The list of `ret` instructions that a program's file contains: their addresses in ascending
// order. tools/stele/returns.py puts the list into the file.
class Returns {
 public:
  explicit Returns(Chan& file) : pages_(file) {}

  // ENOENT if the program has no list, or a list of another version.
  Result<void> find() {
    constexpr uint64_t kMagic = 0x54455253, kVersion = 1, kHeader = 16;  // "SRET"
    const ElfSection section = TRY(elf_section(pages_.file(), ".stele.returns"));
    if (section.size < kHeader || section.offset > INT64_MAX - section.size ||
        TRY(pages_.number(section.offset, 4)) != kMagic ||
        TRY(pages_.number(section.offset + 4, 4)) != kVersion)
      return Errno::ENOENT;
    count_ = TRY(pages_.number(section.offset + 8, 8));
    first_ = section.offset + kHeader;
    if (count_ > (section.size - kHeader) / sizeof(uint64_t)) return Errno::ENOENT;
    return {};
  }
  // True if the list contains `address`. First searches the entries after the address of the
  // previous call, because callers usually ask in order of address.
  Result<bool> has(uint64_t address) {
    constexpr uint64_t kNear = 64;
    if (next_ < count_ && TRY(at(next_)) <= address) {
      for (uint64_t i = 0; i < kNear && next_ < count_; i++, next_++) {
        const uint64_t here = TRY(at(next_));
        if (here >= address) return here == address;
      }
    }
    uint64_t low = 0, high = count_;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (TRY(at(middle)) < address) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    next_ = low;
    return low < count_ && TRY(at(low)) == address;
  }

 private:
  Result<uint64_t> at(uint64_t index) {
    return pages_.number(first_ + index * sizeof(uint64_t), sizeof(uint64_t));
  }

  Pages pages_;
  uint64_t first_ = 0, count_ = 0;
  uint64_t next_ = 0;
};

// Looks up code in a program's file by address.
class Code {
 public:
  explicit Code(Chan& file) : pages_(file) {}
  Result<void> read_segments() {
    const std::span<char> head = pages_.room();
    const size_t size = TRY(read_at(pages_.file(), 0, head.data(), head.size()));
    return elf_segments(pages_.file(), head.data(), size, elf_);
  }
  // True if the bytes at `address` are `expected`.
  Result<bool> matches(uint64_t address, std::span<const uint8_t> expected) {
    for (const uint8_t byte : expected) {
      const Result<int> found = byte_at(address++);
      if (!found) return found.error();
      if (const_cast<Result<int>&>(found).value() != byte) return false;
    }
    return true;
  }

 private:
  // Returns the byte at `address`; -1 if no code is there.
  Result<int> byte_at(uint64_t address) {
    for (const ElfSegment& segment : std::span(elf_.segments, elf_.count)) {
      if (segment.type != kElfLoad || !(segment.flags & kElfExecutable) ||
          (segment.flags & kElfWritable))
        continue;
      if (address < segment.address || address - segment.address >= segment.file_size) continue;
      return pages_.byte(segment.offset + (address - segment.address));
    }
    return -1;
  }

  Pages pages_;
  ElfSegments elf_{};
};

// A program that is being checked. The structure is too large for a kernel stack.
struct Program {
  explicit Program(Chan& file) : code(file), returns(file) {}
  Code code;
  Returns returns;
};

// A byte equal to a `ret` may be part of another instruction, so the program's list must contain
// the address too.
Result<void> check_returns(Program& program, const UserProbe& probe) {
  constexpr uint8_t kReturn[] = {kReturnInstruction};
  for (const uint64_t address : probe.returns) {
    if (!TRY(program.returns.has(address)) || !TRY(program.code.matches(address, kReturn)))
      return fail(Errno::EINVAL, "%lx: there is no `ret` instruction", address);
  }
  return {};
}

Result<void> check(Program& program, std::span<const UserProbe> probes) {
  TRY(program.code.read_segments());
  bool any_returns = false;
  for (const UserProbe& probe : probes) any_returns |= !probe.returns.empty();
  if (any_returns) {
    const Result<void> found = program.returns.find();
    if (!found && found.error() == Errno::ENOENT) {
      return fail(Errno::EINVAL,
                  "the program does not say where its functions return: it has no section "
                  ".stele.returns");
    }
    TRY(found);
  }
  for (const UserProbe& probe : probes) {
    if (!TRY(program.code.matches(probe.address, kFunctionNop)))
      return fail(Errno::EINVAL, "%lx: no function that can be probed begins there", probe.address);
    TRY(check_returns(program, probe));
  }
  return {};
}

}  // namespace

Result<void> user_probes_check(Chan& file, std::span<const UserProbe> probes) {
  void* const memory = kmalloc(sizeof(Program), KM_SLEEP);
  if (!memory) return Errno::ENOMEM;
  auto* const program = new (memory) Program(file);
  const Result<void> result = check(*program, probes);
  kfree(program);
  return result;
}
