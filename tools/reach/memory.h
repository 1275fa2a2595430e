// A guest's memory, read from an ELF core that QEMU wrote, and addressed by the kernel's addresses.
//
// Physical memory is copied to an anonymous mapping. Holes of the core file, which read as zeros,
// are not copied, so they take no memory.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace reach {

// The core, the description of memory (world.h) or a question is wrong, or there is no memory for
// the core. The message is one line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The mappings of memory in the kernel's address space.
struct Mappings {
  uint64_t direct_map;        // where the direct map of all memory begins
  uint64_t size;              // bytes of physical memory, holes included; whole pages
  uint64_t image, image_end;  // [image, image_end) maps physical memory from address 0 on
  uint64_t tables;            // physical address of the kernel's root page table
};

class Memory {
 public:
  static constexpr uint64_t kPage = 4096;

  // Throws Failure if there is no such core, or no memory for it.
  Memory(const std::string& core, const Mappings& mappings);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t base() const { return mappings_.direct_map; }
  uint64_t size() const { return mappings_.size; }
  // True if all `size` bytes at an address of the direct map exist.
  bool holds(uint64_t address, uint64_t size) const {
    const uint64_t offset = address - base();
    return offset <= this->size() && size <= this->size() - offset;
  }
  // Returns a pointer to the word at an address of the direct map. The address must be a multiple
  // of eight, and holds(address, 8) must be true.
  const uint64_t* at(uint64_t address) const { return words_ + (address - base()) / 8; }
  // Translates an address of the kernel to the direct map's address of the same memory; 0 if
  // nothing is mapped there.
  uint64_t direct(uint64_t address) const;
  uint64_t tables() const { return mappings_.tables; }  // physical address of the root page table
  // The entries of the page table at a physical address; nullptr if the address is outside of
  // memory.
  const uint64_t* table(uint64_t physical) const {
    return physical % kPage == 0 && physical < size() ? at(base() + physical) : nullptr;
  }

 private:
  void read(const std::string& core);

  const Mappings mappings_;
  uint64_t* words_ = nullptr;
};

}  // namespace reach
