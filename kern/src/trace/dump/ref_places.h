// Where traced references lie, for dumps: the live references of one kind or of all, each with who
// took it and what it was found in.
//
// Finding them is the work of who can go through all memory (reach/references.cc), and registers
// for it. Here are the answers, in memory that no trace sees, and their text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arena.h"
#include "core/ref.h"
#include "lib/result.h"
#include "store/page_buffer.h"

class RefPlaces {
 public:
  // The later ones are the better ones: a stack may have words of what was there before.
  enum class Where : uint8_t {
    kNowhere,
    kStackApart,  // its two words are not neighbours
    kStack,
    kUnreachedObject,
    kObject,
    kStatic
  };
  static constexpr uint16_t kNoName = UINT16_MAX;
  struct Location {
    Where where;
    uint16_t name;     // kObject: of its cache or arena; kStack: of the task. add_name()
    uint32_t pid;      // kStack: of the task's process; 0: it has none
    uint64_t address;  // of the reference itself
    uint64_t holder;   // kObject: of the object that it lies in
  };
  struct Entry {
    uint64_t number;  // of the reference
    uint64_t object;  // that it is to
    uint32_t stack;   // of the one who took it: a number of the kernel's stacks
    RefKind kind;
    Location place;

    bool is_found() const { return place.where != Where::kNowhere; }
  };
  // The longest text of a place, with its NUL.
  static constexpr size_t kText = 128;

  // --- For who finds.

  // Empties it, with room for `count` entries. ENOMEM. May sleep.
  Result<void> begin(size_t count);
  // Adds a reference whose place is not known. What there is no room for is counted all the same.
  void add(uint64_t number, uint64_t object, uint32_t stack, RefKind kind);
  bool complete() const { return wanted_ <= entries_.capacity(); }
  size_t wanted() const { return wanted_; }
  // All have been added: by their numbers.
  void sort_by_number();
  // The reference with this number; nullptr if there is none.
  Entry* find(uint64_t number);
  // The number of a name, which is `key`'s and copied; kNoName if there is no room for another.
  uint16_t add_name(uint64_t key, const char* name);
  // The order for readers: by kind and stack, what was found first.
  void sort_by_stack();

  // --- For readers.

  std::span<Entry> all() { return {entries_.data(), size_}; }
  std::span<const Entry> all() const { return {entries_.data(), size_}; }
  // Of one kind: those that were taken by `stack`.
  std::span<const Entry> of_stack(uint32_t stack) const;
  // "at +0x18 of vm_region 0x…". The length of the whole text.
  int format(char* buffer, size_t size, const Location& place) const;

 private:
  static constexpr uint16_t kNames = 512;
  struct Name {
    uint64_t key;
    char text[ARENA_NAME_MAX];
  };

  PageBuffer<Entry> entries_;
  PageBuffer<Name> names_;
  size_t size_ = 0, wanted_ = 0;
  uint16_t name_count_ = 0;
};

// Fills `places` with the live references of one kind, or with nullptr of all kinds. ENOMEM, with
// the error string set. May sleep; interrupts on, no spinlock held.
using RefFinder = Result<void> (*)(RefPlaces& places, const RefClass* of);
// At boot. Without one dumps say nothing of places.
void trace_register_ref_finder(RefFinder finder);
RefFinder trace_ref_finder();
