// A fake of the kernel's memory and an index of the objects in it, for the tests of kern/reach.
#pragma once

#include <vector>

#include "reach/index.h"
#include "reach/reached.h"

namespace reach {

inline constexpr uint64_t kBase = 0xffff800000000000, kPage = 4096;

// Memory that begins at kBase; `words` has its contents.
struct Memory {
  explicit Memory(size_t pages) : words(pages * kPage / 8), frames(pages) {}
  uint64_t* at(uint64_t address) { return &words[(address - kBase) / 8]; }
  template <typename Reached>
  void walk(const Run&, uint64_t address, Reached& reached) {
    walked.push_back(address);
    if (hidden) reached.word(hidden);
  }

  std::vector<uint64_t> words;
  std::vector<uint32_t> frames;
  std::vector<Run> runs = std::vector<Run>(1000);
  std::vector<uint8_t> states = std::vector<uint8_t>(100'000);
  std::vector<Entry> stack = std::vector<Entry>(64);
  Index index{kBase, frames, runs, states};
  std::vector<uint64_t> walked;  // objects passed to walk()
  uint64_t hidden = 0;           // if not 0, the pointer that walk() reports for each object

  // Adds to the index a slab of `count` objects of `size` bytes, `stride` bytes apart. The slab has
  // `pages` pages from page `page` on; its first object begins `colour` bytes after the start of
  // the slab. `walks`: the objects' pointers are found by walk(), not by reading the objects.
  void add_slab(uint64_t page, uint64_t pages, uint64_t colour, uint32_t stride, uint64_t size,
                uint32_t count, bool walks = false) {
    const uint64_t start = kBase + page * kPage;
    index.add(start, pages * kPage,
              {start + colour, 0, size, nullptr, count > 1 ? stride : 0, count, 0, walks});
  }
  void mark_from(std::vector<uint64_t> roots) {
    ReachedFromRoots<Memory> reached(index, *this, stack, {});
    reached.words(roots.data(), roots.data() + roots.size());
    reached.finish();
    overflows = reached.overflows();
  }
  bool is_reached(uint64_t address) const { return index.find(address).state() & kReached; }
  uint32_t overflows = 0;
};

}  // namespace reach
