// A guest's memory from an ELF core of QEMU's, by the kernel's addresses.
//
// Pages of zeros take no room in the core, nor here: physical memory is an anonymous mapping, into
// which the core's contents are read.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace reach {

// An inconsistent core or description; one line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The mappings of memory in the kernel's address space.
struct Mappings {
  uint64_t direct_map;        // where the direct map of all memory begins
  uint64_t size;              // bytes of physical memory, holes included; whole pages
  uint64_t image, image_end;  // begin of the image's mapping (of physical address 0), and its end
  uint64_t tables;            // physical address of the kernel's root page table
};

class Memory {
 public:
  static constexpr uint64_t kPage = 4096;

  // Failure: there is no such core, or no memory for it.
  Memory(const std::string& core, const Mappings& mappings);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t base() const { return mappings_.direct_map; }
  uint64_t size() const { return mappings_.size; }
  // Are all `size` bytes at an address of the direct map there?
  bool holds(uint64_t address, uint64_t size) const {
    const uint64_t offset = address - base();
    return offset <= this->size() && size <= this->size() - offset;
  }
  // The word at an address of the direct map, which holds() it; it is a multiple of eight.
  const uint64_t* at(uint64_t address) const { return words_ + (address - base()) / 8; }
  // The address in the direct map of the memory at an address of the kernel; 0 if nothing is mapped
  // there.
  uint64_t direct(uint64_t address) const;
  uint64_t tables() const { return mappings_.tables; }  // physical address of the root page table
  // The entries of a page table; nullptr if it is outside of memory.
  const uint64_t* table(uint64_t physical) const {
    return physical % kPage == 0 && physical < size() ? at(base() + physical) : nullptr;
  }

 private:
  void read(const std::string& core);

  const Mappings mappings_;
  uint64_t* words_ = nullptr;
};

}  // namespace reach
