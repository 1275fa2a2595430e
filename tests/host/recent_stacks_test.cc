// Sources: kern/src/trace/recent_stacks.cc kern/src/trace/trace_memory.cc tests/host/fakes/trace_arena.cc

// Stacks made by hand: an entry must match exactly when a walk finds what it found before, whatever has changed meanwhile.

// The C++ library goes first: kernel headers take the names of error numbers away from its macros.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "arch/x86_64/context.h"
#include "src/trace/recent_stacks.h"
#include "src/trace/trace_memory.h"
#include "trace_arena.h"

namespace {

// A kernel stack with a chain of frames on it.
class Stack {
 public:
  Stack() : memory_(new Memory()) { cpu.kernel_stack = reinterpret_cast<uint64_t>(memory_.get()) + kKernelStackSize; }

  // `count` frames with gaps from the bottom up; the last one's pointer is `end`, and with `zero` there is a frame without
  // a return address in between.
  void make(std::mt19937_64& random, size_t count, std::optional<uint64_t> end) {
    frames_.clear();
    uint64_t at = cpu.kernel_stack - kKernelStackSize + 512;
    for (size_t i = 0; i < count; i++) {
      frames_.push_back(reinterpret_cast<uint64_t*>(at));
      at += 16 + random() % 3 * 16;
    }
    for (size_t i = 0; i < count; i++) {
      frames_[i][0] = reinterpret_cast<uint64_t>(i + 1 < count ? frames_[i + 1] : reinterpret_cast<uint64_t*>(at));
      frames_[i][1] = 0x1000 + random() % 4;
    }
    if (end) {
      frames_.back()[0] = *end;
    } else {
      frames_.push_back(reinterpret_cast<uint64_t*>(at));
      frames_.back()[0] = random();
      frames_.back()[1] = 0;
    }
  }

  uint64_t bottom() const { return reinterpret_cast<uint64_t>(frames_[0]); }
  std::vector<uint64_t*>& frames() { return frames_; }

  // As walk_kernel_stack does it.
  std::vector<uint64_t> walk(size_t max) const {
    std::vector<uint64_t> found;
    uint64_t low = cpu.kernel_stack - kKernelStackSize;
    uint64_t pointer = bottom();
    while (found.size() < max && pointer >= low && pointer + 16 <= cpu.kernel_stack && pointer % 8 == 0) {
      const auto* frame = reinterpret_cast<const uint64_t*>(pointer);
      if (frame[1] == 0) break;
      found.push_back(frame[1]);
      low = pointer + 16;
      pointer = frame[0];
    }
    return found;
  }

  Cpu cpu = {};

 private:
  struct alignas(4096) Memory {
    uint64_t words[kKernelStackSize / 8];
  };
  std::unique_ptr<Memory> memory_;
  std::vector<uint64_t*> frames_;
};

// Pointers that end a walk, or would if they were looked at.
uint64_t some_end(std::mt19937_64& random, const Stack& stack) {
  switch (random() % 4) {
    case 0:
      return 0;
    case 1:
      return stack.cpu.kernel_stack - 8;  // no room for a frame
    case 2:
      return stack.bottom();  // backwards
    default:
      return 0x7fff00001000 + random() % 3 * 16;  // a user's
  }
}

TEST(RecentStacks, MatchWhenAWalkFindsTheSame) {
  std::mt19937_64 random(1);
  const auto entry = std::make_unique<RecentStack>();
  unsigned matched = 0, refused = 0;
  for (int i = 0; i < 30'000; i++) {
    Stack stack;
    stack.make(random, 1, 0);
    const auto end = random() % 2 ? std::optional(some_end(random, stack)) : std::nullopt;
    stack.make(random, 1 + random() % 20, end);
    const auto max = static_cast<uint32_t>(1 + random() % 24);
    const std::vector<uint64_t> before = stack.walk(max);
    std::vector<uint64_t> found;
    ASSERT_EQ(entry->walk(stack.bottom(), max, stack.cpu, [&](uint64_t address) { found.push_back(address); }),
              before.size());
    ASSERT_EQ(found, before);
    ASSERT_FALSE(entry->matches(stack.bottom(), max, stack.cpu)) << "it has no name yet";
    entry->name(7, true);
    ASSERT_TRUE(entry->matches(stack.bottom(), max, stack.cpu));
    ASSERT_EQ(entry->id(), 7u);
    ASSERT_TRUE(entry->truncated());
    ASSERT_FALSE(entry->matches(stack.bottom(), max + 1, stack.cpu));
    ASSERT_FALSE(entry->matches(stack.bottom() + 16, max, stack.cpu));
    Cpu other = stack.cpu;
    other.kernel_stack += kKernelStackSize;
    ASSERT_FALSE(entry->matches(stack.bottom(), max, other));

    // One word changes: a return address, or where a frame leads to.
    uint64_t* const frame = stack.frames()[random() % stack.frames().size()];
    if (random() % 2) {
      frame[1] = random() % 3 ? 0x2000 : 0;
    } else {
      frame[0] = random() % 2 ? some_end(random, stack) : reinterpret_cast<uint64_t>(stack.frames().back());
    }
    const bool same = stack.walk(max) == before;
    const bool matches = entry->matches(stack.bottom(), max, stack.cpu);
    ASSERT_TRUE(same || !matches) << "another stack";
    matched += matches;
    refused += !matches;
  }
  EXPECT_GT(matched, 5'000u);
  EXPECT_GT(refused, 5'000u);
}

TEST(RecentStacks, WhatIsTooDeepOrElsewhereIsNotKept) {
  std::mt19937_64 random(2);
  const auto entry = std::make_unique<RecentStack>();
  const auto ignore = [](uint64_t) {};
  Stack stack;
  stack.make(random, RecentStack::kMaxFrames + 5, std::nullopt);
  EXPECT_EQ(entry->walk(stack.bottom(), RecentStack::kMaxFrames + 1, stack.cpu, ignore), 0u);
  EXPECT_EQ(entry->walk(stack.bottom(), RecentStack::kMaxFrames, stack.cpu, ignore), size_t{RecentStack::kMaxFrames});
  Stack other;
  EXPECT_EQ(entry->walk(stack.bottom(), 10, other.cpu, ignore), 0u);
  EXPECT_FALSE(entry->matches(stack.bottom(), 10, other.cpu));
}

TEST(RecentStacks, TakePagesOnlyIfTheyAreASmallPartOfTheLimit) {
  constexpr uint64_t kBytes = uint64_t{2} * kRecentPages * kPageSize;
  trace_memory_init(0);
  const uint64_t frame[2] = {};
  Cpu cpu = {};
  for (const bool enough : {false, true}) {
    trace_memory_set_limit(kBytes * 16 - !enough);
    trace_memory_begin(1);
    const uint64_t before = trace_memory_used();
    recent_stacks_open(2);
    for (cpu.id = 0; cpu.id < 2; cpu.id++) {
      EXPECT_EQ(recent_stack(reinterpret_cast<uint64_t>(frame), cpu) != nullptr, enough);
    }
    EXPECT_GE(trace_memory_used(), before + (enough ? kBytes - kPagesPerHook * kPageSize : 0));
    recent_stacks_close();
    trace_memory_end();
    EXPECT_EQ(trace_arena::pages_out(), 0u);
  }
}

}  // namespace
