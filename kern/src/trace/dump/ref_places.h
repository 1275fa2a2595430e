// The places of traced references, for dumps: the live references of one kind or of all, each with
// the stack that took it and the memory that it was found in.
//
// reach/references.cc, which can search all memory, finds the places and registers for that. This
// file keeps the results, in untraced memory, and formats them.
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
  // Later values are more reliable: a stack may have stale words.
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
    uint64_t object;  // that it refers to
    uint32_t stack;   // that took it: a number of a kernel stack
    RefKind kind;
    Location place;

    bool is_found() const { return place.where != Where::kNowhere; }
  };
  // The longest text of a place, with its NUL.
  static constexpr size_t kText = 128;

  // --- For the finder.

  // Empties it, and makes room for `count` entries. ENOMEM. May sleep.
  Result<void> begin(size_t count);
  // Adds a reference whose place is not known yet; only counts it if there is no room.
  void add(uint64_t number, uint64_t object, uint32_t stack, RefKind kind);
  bool complete() const { return wanted_ <= entries_.capacity(); }
  size_t wanted() const { return wanted_; }
  // Sorts by number, after all have been added.
  void sort_by_number();
  // The reference with this number; nullptr if there is none.
  Entry* find(uint64_t number);
  // The number of the name of `key`, which is copied; kNoName if there is no room for another.
  uint16_t add_name(uint64_t key, const char* name);
  // Sorts for readers: by kind and stack, found references first.
  void sort_by_stack();

  // --- For readers.

  std::span<Entry> all() { return {entries_.data(), size_}; }
  std::span<const Entry> all() const { return {entries_.data(), size_}; }
  // The references that `stack` took, if there is only one kind.
  std::span<const Entry> of_stack(uint32_t stack) const;
  // Writes "at +0x20 of vm_region 0x…"; returns the length of the whole text.
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
// Registers the finder, at boot. Without one dumps have no places.
void trace_register_ref_finder(RefFinder finder);
RefFinder trace_ref_finder();
