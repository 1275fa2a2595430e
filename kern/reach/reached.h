// Finds all objects that can be reached from given words.
//
// The search scans the words at addresses that are multiples of eight. A word counts as a pointer
// to a live object if its value is an address anywhere in the object. A reached object is scanned
// as a whole, except for its payload (index.h). The scan is depth first, with an explicit stack of
// objects that remain to be scanned. The stack is bounded. An object that does not fit on it is
// noted as pending; when the stack is empty, the index is searched for pending objects (Jones,
// Hosking and Moss, "The Garbage Collection Handbook", 2011, section 2.1 on overflow of the mark
// stack; Boehm's collector does the same). Each object is scanned once, even if the stack overflows
// often.
//
// Objects may also refer to other objects by contents that are not addresses. The Space (see below)
// follows such contents: its walk() is called for each object of a run whose `walks` is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reach/index.h"

namespace reach {

// An object that remains to be scanned.
struct Entry {
  uint64_t address;
  const Run* run;
};

// A Space is the memory that is searched. It has
//   const uint64_t* at(uint64_t address)        where the contents of an object can be read
//   template <typename M> void walk(const Run& run, uint64_t address, M& reached)
// The set of the objects that have been reached. A Reached adds a found object if the object's
// state, masked with kMask, equals kValue. To add it, it sets kSet in the state and calls
// on_add(object). (In the literature this is marking. Here a mark is what a user sets in a trace.)
template <typename Space, uint8_t kMask, uint8_t kValue, uint8_t kSet, typename OnAdd>
class Reached {
 public:
  Reached(const Index& index, Space& space, std::span<Entry> stack, OnAdd on_add)
      : index_(index), space_(space), stack_(stack), on_add_(on_add) {}

  // Takes a word that may be an address, and adds the object that it leads to. finish() follows
  // the contents of that object.
  void word(uint64_t word) {
    if (const Object object = index_.find(word)) add(object);
  }
  // Takes a word like word(). The first parameter is the address at which the word lies: a Reached
  // ignores it, other searches (paths.h, holders.h) record it.
  void word_at(uint64_t, uint64_t word) { this->word(word); }
  // Adds an object if its state allows this (kMask, kValue). True if this call added it.
  bool add(const Object& object) {
    uint8_t& state = object.state();
    if ((state & kMask) != kValue) return false;
    state |= kSet;
    on_add_(object);
    if (!(state & kOpaque)) push(object);
    return true;
  }
  // Calls word() for each word from `from` up to `end`.
  void words(const uint64_t* from, const uint64_t* end) { look_through(from, end, top_); }

  // Follows the contents of all added objects, until nothing more is found.
  void finish() {
    drain();
    while (overflowed_) {
      overflowed_ = false;
      overflows_++;
      index_.for_each(kPending, kPending, [this](const Object& object) {
        object.state() &= static_cast<uint8_t>(~kPending);
        push(object);
        drain();
      });
    }
  }
  // How often the stack overflowed and the index was searched for pending objects.
  uint32_t overflows() const { return overflows_; }
  const Index& index() const { return index_; }

 private:
  void push(const Object& object) {
    if (top_ == end_of_stack()) [[unlikely]] {
      object.state() |= kPending;
      overflowed_ = true;
      return;
    }
    *top_++ = {object.address(), object.run};
  }
  Entry* end_of_stack() const { return stack_.data() + stack_.size(); }

  void drain() { look_through(nullptr, nullptr, stack_.data()); }

  // Calls word() for each word from `from` up to `end`, then scans the objects on the stack, down
  // to `floor`. This is the hot loop: an object whose only state bit is kLive is added and pushed
  // here; add() handles all other cases. Most words are no addresses; one comparison rejects them.
  void look_through(const uint64_t* from, const uint64_t* end, Entry* floor) {
    const uint64_t base = index_.base(), frame_count = index_.frames().size();
    const uint32_t* const frames = index_.frames().data();
    const Run* const runs = index_.all_runs();
    Entry* const end_of_stack = this->end_of_stack();
    Entry* top = top_;
    const auto visit = [&](uint64_t word) __attribute__((always_inline)) {
      const uint64_t frame = (word - base) >> Index::kFrameShift;
      if (frame >= frame_count) return;
      const Run& run = runs[frames[frame]];
      const uint64_t offset = word - run.base;
      if (offset >= run.extent) return;
      uint32_t place = 0;
      uint64_t rest = offset;
      if (run.stride != 0) [[likely]] {
        place = static_cast<uint32_t>(offset) / run.stride;
        rest = static_cast<uint32_t>(offset) % run.stride;
        if (rest >= run.size) return;
      }
      uint8_t& state = run.states[place];
      if (state != kLive || kValue != kLive || top == end_of_stack) [[unlikely]] {
        top_ = top;
        add({&run, place});
        top = top_;
        return;
      }
      state = kLive | kSet;
      on_add_(Object{&run, place});
      *top++ = {word - rest, &run};
    };
    for (;;) {
      const auto* const end_of_eights = reinterpret_cast<const uint64_t*>(
          reinterpret_cast<uintptr_t>(from) +
          ((reinterpret_cast<uintptr_t>(end) - reinterpret_cast<uintptr_t>(from)) &
           ~uintptr_t{63}));
      for (; from != end_of_eights; from += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
          if (!is_less(from[i], base)) [[unlikely]]
            visit(from[i]);
        }
      }
      for (; from != end; from++) {
        if (!is_less(*from, base)) [[unlikely]]
          visit(*from);
      }
      if (top == floor) break;
      const Entry entry = *--top;
      if (entry.run->walks) [[unlikely]] {
        top_ = top;
        space_.walk(*entry.run, entry.address, *this);
        top = top_;
      }
      from = space_.at(entry.address);
      end = from + entry.run->searched / sizeof(uint64_t);
    }
    top_ = top;
  }

  // Compares in one instruction, without loading the word into a register: usually the word is not
  // used again.
  [[gnu::always_inline]] static bool is_less(const uint64_t& word, uint64_t least) {
#ifdef __x86_64__
    bool less;
    asm("cmpq %2, %1" : "=@ccb"(less) : "m"(word), "r"(least));
    return less;
#else
    return word < least;
#endif
  }

  const Index& index_;
  Space& space_;
  const std::span<Entry> stack_;
  OnAdd on_add_;
  Entry* top_ = stack_.data();
  bool overflowed_ = false;
  uint32_t overflows_ = 0;
};

struct Nothing {
  void operator()(const Object&) const {}
};

// The reached for everything that can be reached from roots.
template <typename Space>
using ReachedFromRoots = Reached<Space, kLive | kReached, kLive, kReached, Nothing>;

}  // namespace reach
