// Lists where traced references lie, for dumps. The list has the live references of one kind or of
// all kinds. Each entry has the stack of the caller that took the reference, and the memory in
// which the reference was found.
//
// reach/references.cc can search all memory. It registers a function that finds the references
// (RefFinder). This file stores the results in untraced memory, and formats them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arena.h"
#include "core/ref.h"
#include "intern/ids.h"
#include "intern/page_buffer.h"
#include "lib/result.h"

class RefPlaces {
 public:
  // If a reference is found in several places, the entry gets the place with the highest value.
  // Stacks have low values, because they may contain stale words.
  enum class Where : uint8_t {
    kNowhere,
    kStackApart,       // on a stack; pointer and number of the reference lie apart
    kStack,            // on a stack
    kUnreachedObject,  // in an object that nothing can reach
    kObject,           // in any other object
    kStatic            // in static data
  };
  static constexpr uint16_t kNoName = UINT16_MAX;
  struct Location {
    Where where;
    uint16_t name;  // number from add_name(): name of the object's cache or arena, or of the task
    uint32_t pid;   // on a stack: pid of the task's process, 0 for none
    uint64_t address;  // address of the reference itself
    uint64_t holder;   // in an object: address of the object
  };
  struct Entry {
    uint64_t number;  // number of the reference
    uint64_t object;  // the object to which the reference points
    StackId stack;    // the kernel stack of the caller that took the reference
    RefKind kind;
    Location place;

    bool is_found() const { return place.where != Where::kNowhere; }
  };
  // The size of the longest text of a Location, with its NUL.
  static constexpr size_t kText = 128;

  // --- For the finder.

  // Removes all entries, and makes room for `count` entries. ENOMEM. May sleep.
  Result<void> begin(size_t count);
  // Adds a reference whose location is not known yet. If there is no room, counts the reference
  // without adding it.
  void add(uint64_t number, uint64_t object, StackId stack, RefKind kind);
  // True if there was room for all references; wanted() is their number.
  bool complete() const { return wanted_ <= entries_.capacity(); }
  size_t wanted() const { return wanted_; }
  // Sorts by number. Called after all references have been added, and before find().
  void sort_by_number();
  // The reference with this number; nullptr if there is none.
  Entry* find(uint64_t number);
  // Returns a number for a name, and copies the name if `key` has no number yet. `key` identifies
  // the owner of the name. kNoName if there is no room.
  uint16_t add_name(uint64_t key, const char* name);
  // Sorts for readers: by kind and stack, found references first.
  void sort_by_stack();

  // --- For readers.

  std::span<Entry> all() { return {entries_.data(), size_}; }
  std::span<const Entry> all() const { return {entries_.data(), size_}; }
  // The references that were taken with this stack. Call only if all entries are of one kind.
  std::span<const Entry> of_stack(StackId stack) const;
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

// A function that fills `places` with the live references of one kind, `of`. If `of` is nullptr,
// fills it with the references of all kinds. ENOMEM, with the error string set. May sleep. Called
// with interrupts on and no spinlock held.
using RefFinder = Result<void> (*)(RefPlaces& places, const RefClass* of);
// Registers the finder, at boot. Without a finder, dumps do not say where references lie.
void trace_register_ref_finder(RefFinder finder);
RefFinder trace_ref_finder();
