#include "memory.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "page_tables.h"

namespace reach {
namespace {

class File {
 public:
  explicit File(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Failure(path + ": " + strerror(errno));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void read(uint64_t offset, void* to, uint64_t size) const {
    auto* at = static_cast<char*>(to);
    while (size > 0) {
      const ssize_t got = pread(descriptor_, at, size, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw Failure(path_ + (got < 0 ? ": cannot be read" : ": cut off"));
      at += got;
      offset += static_cast<uint64_t>(got);
      size -= static_cast<uint64_t>(got);
    }
  }
  // Reads `size` bytes to `to`, which is zeroed memory. Skips the file's holes. The file must not
  // change meanwhile.
  void read_data(uint64_t offset, char* to, uint64_t size) const {
    const uint64_t end = offset + size;
    const off_t whole = lseek(descriptor_, 0, SEEK_END);
    if (whole < 0 || end > static_cast<uint64_t>(whole)) throw Failure(path_ + ": cut off");
    for (uint64_t at = offset; at < end;) {
      const off_t data = lseek(descriptor_, static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) return;
      const uint64_t from = data < 0 ? at : std::max(at, static_cast<uint64_t>(data));
      const off_t hole = data < 0 ? -1 : lseek(descriptor_, data, SEEK_HOLE);
      const uint64_t until = hole < 0 ? end : std::min(end, static_cast<uint64_t>(hole));
      if (from < until) read(from, to + (from - offset), until - from);
      at = std::max(until, from);
    }
  }

 private:
  const std::string path_;
  const int descriptor_;
};

}  // namespace

Memory::Memory(const std::string& core, const Mappings& mappings) : mappings_(mappings) {
  void* const memory = mmap(nullptr, mappings.size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Failure("no room for the guest's memory");
  words_ = static_cast<uint64_t*>(memory);
  read(core);
}

Memory::~Memory() {
  munmap(words_, mappings_.size);
}

void Memory::read(const std::string& core) {
  const File file(core);
  Elf64_Ehdr header;
  file.read(0, &header, sizeof(header));
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_CORE || header.e_machine != EM_X86_64 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    throw Failure(core + ": not a core of x86-64");
  uint64_t count = header.e_phnum;
  if (count == PN_XNUM) {
    Elf64_Shdr first;
    file.read(header.e_shoff, &first, sizeof(first));
    count = first.sh_info;
  }
  std::vector<Elf64_Phdr> segments(count);
  file.read(header.e_phoff, segments.data(), count * sizeof(Elf64_Phdr));
  for (const Elf64_Phdr& segment : segments) {
    // Read only segments of the direct map: the segments of other mappings repeat its memory.
    if (segment.p_type != PT_LOAD || !holds(segment.p_vaddr, 0)) continue;
    const uint64_t offset = segment.p_vaddr - base();
    file.read_data(segment.p_offset, reinterpret_cast<char*>(words_) + offset,
                   std::min(segment.p_filesz, size() - offset));
  }
}

uint64_t Memory::direct(uint64_t address) const {
  if (holds(address, 1)) return address;
  if (address >= mappings_.image && address < mappings_.image_end)
    return base() + (address - mappings_.image);
  const uint64_t physical = mapped_at(*this, mappings_.tables, address);
  return physical < size() ? base() + physical : 0;
}

}  // namespace reach
