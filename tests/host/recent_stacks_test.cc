// Tests the cache of recent stacks (intern/recent_stacks_impl.h) on stacks that the tests make.
// After a stack has changed, a cache entry may match the stack only if a walk of the stack finds
// the same frames as before. After an update, the entry must have the frames that a walk finds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "arch/x86_64/context.h"
#include "intern/recent_stacks_impl.h"
#include "intern/trace_memory.h"
#include "trace_arena.h"

namespace {

// A kernel stack with a chain of frames on it.
class Stack {
 public:
  Stack() : memory_(new Memory[2]()) { cpu.kernel_stack = top(0); }

  // Makes `count` frames with gaps between them, at rising addresses. `end` is the frame pointer
  // that the last frame saves. Without `end`, one more frame follows, whose return address is 0.
  void make(std::mt19937_64& random, size_t count, std::optional<uint64_t> end) {
    frames_.clear();
    uint64_t at = cpu.kernel_stack - kKernelStackSize + 512;
    for (size_t i = 0; i < count; i++) {
      frames_.push_back(reinterpret_cast<uint64_t*>(at));
      at += 16 + random() % 3 * 16;
    }
    for (size_t i = 0; i < count; i++) {
      frames_[i][0] = reinterpret_cast<uint64_t>(i + 1 < count ? frames_[i + 1]
                                                               : reinterpret_cast<uint64_t*>(at));
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

  // Moves the frames to the other stack, as if another task had the same frames: each frame keeps
  // its distance from the top of the stack.
  void move() {
    const uint64_t from = cpu.kernel_stack, to = from == top(0) ? top(1) : top(0);
    const uint64_t low = from - kKernelStackSize;
    memcpy(reinterpret_cast<void*>(to - kKernelStackSize), reinterpret_cast<void*>(low),
           kKernelStackSize);
    cpu.kernel_stack = to;
    for (uint64_t*& frame : frames_) {
      frame = reinterpret_cast<uint64_t*>(reinterpret_cast<uint64_t>(frame) + to - from);
      if (frame[0] >= low && frame[0] <= from) frame[0] += to - from;
    }
  }
  // Returns the address that move() would give to the last frame.
  uint64_t elsewhere() const {
    const uint64_t other = cpu.kernel_stack == top(0) ? top(1) : top(0);
    return reinterpret_cast<uint64_t>(frames_.back()) + other - cpu.kernel_stack;
  }

  uint64_t bottom() const { return reinterpret_cast<uint64_t>(frames_[0]); }
  std::vector<uint64_t*>& frames() { return frames_; }

  // Walks the frames as walk_kernel_stack does.
  std::vector<uint64_t> walk(size_t max) const {
    std::vector<uint64_t> found;
    uint64_t low = cpu.kernel_stack - kKernelStackSize;
    uint64_t pointer = bottom();
    while (found.size() < max && pointer >= low && pointer + 16 <= cpu.kernel_stack &&
           pointer % 8 == 0) {
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
  uint64_t top(size_t stack) const {
    return reinterpret_cast<uint64_t>(&memory_[stack]) + kKernelStackSize;
  }
  std::unique_ptr<Memory[]> memory_;
  std::vector<uint64_t*> frames_;
};

// Returns a saved frame pointer that ends a walk: 0, or an address that a walk must not follow.
uint64_t some_end(std::mt19937_64& random, const Stack& stack) {
  switch (random() % 5) {
    case 4:
      return stack.elsewhere();
    case 0:
      return 0;
    case 1:
      return stack.cpu.kernel_stack - 8;  // leaves no room for a frame
    case 2:
      return stack.bottom();  // points backwards
    default:
      return 0x7fff00001000 + random() % 3 * 16;  // a user address
  }
}

// True for the return address in the fake allocator. A trace may skip frames with this return
// address at the start of a stack.
bool skipped(uint64_t address) {
  return address == 0x1000;
}

// The frames of a stack that a trace records. `truncated`: frames are missing, since the stack is
// deeper than the scope allows.
struct Recorded {
  std::vector<uint64_t> frames;
  bool truncated;
};
Recorded recorded(const Stack& stack, StackScope scope) {
  std::vector<uint64_t> frames = stack.walk(scope.walk());
  const auto first = scope.skips_allocator()
                         ? std::find_if_not(frames.begin(), frames.end(), skipped)
                         : frames.begin();
  frames.erase(frames.begin(), first);
  const bool truncated = frames.size() > scope.depth();
  if (truncated) frames.resize(scope.depth());
  return {frames, truncated};
}

// Checks that the entry has the expected frames, and that the table finds the stack by the hash in
// the entry.
void expect_kept(const RecentStack& entry, const Recorded& expected, StackTable& table) {
  std::vector<uint64_t> frames;
  for (const uint32_t frame : entry.frames()) frames.push_back(StackTable::unpacked(frame));
  ASSERT_EQ(frames, expected.frames);
  ASSERT_EQ(entry.truncated(), expected.truncated);
  trace_memory_prepare();
  const StackId id = table.intern(StackKind::kKernel, frames.data(), frames.size());
  ASSERT_NE(id, StackId::kNone);
  ASSERT_EQ(table.intern_packed(entry.frames(), entry.sum()), id);
}

StackScope some_scope(std::mt19937_64& random) {
  const auto depth = static_cast<uint32_t>(1 + random() % 24);
  return random() % 4 ? StackScope::callers(depth) : StackScope::innermost(depth);
}

class RecentStackTest : public testing::Test {
 protected:
  void SetUp() override {
    trace_memory_init(uint64_t{64} << 20);
    trace_memory_begin(1);
    ASSERT_TRUE(table_.open().ok());
  }
  void TearDown() override {
    table_.clear();
    trace_memory_end();
  }
  StackTable table_;
};

// Changes return addresses and saved frame pointers of random stacks, up to two at a time, and
// checks the cache entry after each change.
TEST_F(RecentStackTest, HoldsWhatAWalkFindsWhateverWasThereBefore) {
  std::mt19937_64 random(1);
  const auto entry = std::make_unique<RecentStack>();
  unsigned matched = 0, moved = 0, moved_alike = 0, readdressed = 0, refreshed = 0, not_kept = 0;
  for (int i = 0; i < 8'000; i++) {
    Stack stack;
    stack.make(random, 1, 0);
    const auto end = random() % 2 ? std::optional(some_end(random, stack)) : std::nullopt;
    stack.make(random, 1 + random() % 20, end);
    StackScope scope = some_scope(random);
    std::vector<uint64_t> before;
    for (int change = 0; change < 16; change++) {
      const std::vector<uint64_t> now = stack.walk(scope.walk());
      const Recorded expected = recorded(stack, scope);
      const uint64_t top = stack.cpu.kernel_stack;
      const RecentStack::Frame* from = nullptr;
      bool is_at = entry->is_at(stack.bottom(), scope, top);
      if (is_at) from = entry->differs(top);
      if (!is_at && entry->move(stack.bottom(), scope, top)) {
        is_at = true;
        from = entry->differs(top);
        moved++;
        moved_alike += !from;
      }
      const bool differs = !is_at || from;
      if (!differs) {
        ASSERT_EQ(now, before) << "another stack";
        matched++;
      } else if (entry->readdress(from, stack.bottom(), scope, top)) {
        ASSERT_NE(now, before);
        readdressed++;
      } else if (entry->refresh(stack.bottom(), scope, top, skipped)) {
        refreshed++;
      } else {
        // The number of the allocator's frames, which the scope skips, has changed. The first call
        // of refresh() returns false; the second call stores the whole stack again.
        not_kept++;
        ASSERT_TRUE(scope.skips_allocator());
        ASSERT_TRUE(entry->refresh(stack.bottom(), scope, top, skipped));
      }
      ASSERT_NO_FATAL_FAILURE(expect_kept(*entry, expected, table_));
      if (differs) {
        ASSERT_FALSE(entry->matches(stack.bottom(), scope, top)) << "it has no name yet";
        entry->name(StackId{7});
      }
      ASSERT_TRUE(entry->matches(stack.bottom(), scope, top));
      const uint64_t stack_word = 7 | (expected.truncated ? kStackTruncated : 0);
      ASSERT_EQ(entry->stack(), stack_word);
      if (differs) {
        ASSERT_TRUE(entry->knows(TraceCaller::kNone)) << "what has no caller has no pair";
        ASSERT_EQ(entry->named(), stack_word);
      }
      const bool cut = random() % 2;
      const StackId user{static_cast<uint32_t>(1 + random() % 2)};
      const TraceCaller caller = caller_with(user, cut);
      const uint64_t pair_word = 8 | (expected.truncated || cut ? kStackTruncated : 0);
      if (entry->knows(caller)) {
        ASSERT_EQ(entry->named(), pair_word) << "of this stack";
      }
      entry->pair(caller, StackId{8});
      ASSERT_TRUE(entry->knows(caller));
      ASSERT_FALSE(entry->knows(TraceCaller::kNone));
      ASSERT_FALSE(entry->knows(caller_with(StackId{number_of(user) ^ 3}, cut)));
      ASSERT_EQ(entry->named(), pair_word);
      ASSERT_EQ(entry->stack(), stack_word);
      before = now;
      const StackScope deeper = StackScope::callers(scope.depth() + 1);
      ASSERT_FALSE(entry->matches(stack.bottom(), deeper, top));
      ASSERT_FALSE(entry->matches(stack.bottom() + 16, scope, top));
      ASSERT_FALSE(entry->matches(stack.bottom(), scope, top + kKernelStackSize));

      for (uint64_t words = random() % 3; words > 0; words--) {
        uint64_t* const frame = stack.frames()[random() % stack.frames().size()];
        if (random() % 4) {
          frame[1] = random() % 6 ? 0x1000 + random() % 4 : 0;
        } else {
          frame[0] = random() % 2 ? some_end(random, stack)
                                  : reinterpret_cast<uint64_t>(stack.frames().back());
        }
      }
      if (random() % 8 == 0) scope = some_scope(random);
      if (random() % 4 == 0) stack.move();
    }
  }
  EXPECT_GT(matched, 5'000u);
  EXPECT_GT(moved, 5'000u);
  EXPECT_GT(moved_alike, 2'000u);
  EXPECT_GT(readdressed, 5'000u);
  EXPECT_GT(refreshed, 5'000u);
  EXPECT_GT(not_kept, 500u);
}

TEST(RecentStacks, WhatIsTooDeepElsewhereOrCannotBePackedIsNotKept) {
  std::mt19937_64 random(2);
  const auto entry = std::make_unique<RecentStack>();
  Stack stack;
  stack.make(random, RecentStack::kMaxFrames + 5, std::nullopt);
  const StackScope most = StackScope::innermost(RecentStack::kMaxFrames - 1);
  EXPECT_FALSE(entry->refresh(stack.bottom(), StackScope::innermost(RecentStack::kMaxFrames),
                              stack.cpu.kernel_stack, skipped));
  ASSERT_TRUE(entry->refresh(stack.bottom(), most, stack.cpu.kernel_stack, skipped));
  EXPECT_EQ(entry->frames().size(), RecentStack::kMaxFrames - 1);
  EXPECT_TRUE(entry->truncated());
  entry->name(StackId{1});
  stack.frames()[3][1] = 0x7f0000001000;
  const RecentStack::Frame* const differs = entry->differs(stack.cpu.kernel_stack);
  ASSERT_NE(differs, nullptr);
  EXPECT_FALSE(entry->readdress(differs, stack.bottom(), most, stack.cpu.kernel_stack));
  EXPECT_FALSE(entry->refresh(stack.bottom(), most, stack.cpu.kernel_stack, skipped));
  EXPECT_FALSE(entry->matches(stack.bottom(), most, stack.cpu.kernel_stack));
  stack.frames()[3][1] = 0x1001;
  Stack other;
  EXPECT_FALSE(entry->refresh(stack.bottom(), most, other.cpu.kernel_stack, skipped));
  EXPECT_FALSE(entry->matches(stack.bottom(), most, other.cpu.kernel_stack));
  EXPECT_TRUE(entry->refresh(stack.bottom(), most, stack.cpu.kernel_stack, skipped));
}

// Tests the caches of two CPUs with stacks of one frame. Each stack has a different return address;
// open() chooses addresses that belong to the same set of entries.
class RecentStacksTest : public testing::Test {
 protected:
  static constexpr uint64_t kEnough = uint64_t{2} * 4 * kPageSize * 16;

  void open(uint64_t limit) {
    trace_memory_init(0);
    trace_memory_set_limit(limit);
    trace_memory_begin(1);
    recent_stacks_open(2);
    for (uint64_t i = 0; i < std::size(stacks_); i++) {
      std::mt19937_64 random(i);
      stacks_[i].make(random, 1, 0);
      stacks_[i].frames()[0][1] = 0x1000 + i * kSameSet;
    }
  }
  void TearDown() override {
    recent_stacks_close();
    trace_memory_end();
    EXPECT_EQ(trace_arena::pages_out(), 0u);
  }
  // True if the CPU's cache has the stack.
  static bool has(Stack& stack) {
    const uint64_t frame = stack.bottom(), top = stack.cpu.kernel_stack;
    if (recent_place(frame, stack.cpu)->matches(frame, kScope, top)) return true;
    const RecentStack::Frame* from = nullptr;
    const RecentStack* const found = find_recent(frame, kScope, stack.cpu, &from);
    EXPECT_TRUE(!found || found == recent_place(frame, stack.cpu)) << "it comes first then";
    return found;
  }
  // Stores the stack in the CPU's cache. False if there is no entry for it.
  static bool keep(Stack& stack) {
    trace_memory_prepare();
    RecentStack* const entry = replace_recent(stack.bottom(), stack.cpu);
    if (!entry) return false;
    EXPECT_TRUE(entry->refresh(stack.bottom(), kScope, stack.cpu.kernel_stack, skipped));
    entry->name(StackId{1});
    return true;
  }

  static constexpr StackScope kScope = StackScope::innermost(4);
  static constexpr uint64_t kSameSet = kRecentPlaces;
  Stack stacks_[kRecentWays + 1];
};

TEST_F(RecentStacksTest, AreAsManyAsAreASmallPartOfTheLimit) {
  for (const bool enough : {false, true}) {
    open(kEnough - !enough);
    for (uint32_t cpu = 0; cpu < 2; cpu++) {
      stacks_[cpu].cpu.id = CpuId{cpu};
      EXPECT_EQ(keep(stacks_[cpu]), enough);
      EXPECT_EQ(has(stacks_[cpu]), enough);
    }
    recent_stacks_close();
    trace_memory_end();
    EXPECT_EQ(trace_arena::pages_out(), 0u);
  }
  open(kEnough);
}

TEST_F(RecentStacksTest, KeepFourThatHaveOnePlaceWhereverTheyLie) {
  open(kEnough);
  for (size_t i = 0; i < kRecentWays; i++) EXPECT_TRUE(keep(stacks_[i]));
  for (int turn = 0; turn < 4; turn++) {
    for (size_t i = 0; i < kRecentWays; i++) EXPECT_TRUE(has(stacks_[i])) << i;
    stacks_[turn].move();
  }
  EXPECT_FALSE(has(stacks_[kRecentWays]));
  EXPECT_TRUE(keep(stacks_[kRecentWays]));
  EXPECT_TRUE(has(stacks_[kRecentWays - 1])) << "it was the last one";
  EXPECT_TRUE(has(stacks_[kRecentWays]));
  EXPECT_EQ(has(stacks_[0]) + has(stacks_[1]) + has(stacks_[2]), 2) << "one is gone";
}

// When the cache has as many entries as its limit allows, a new stack replaces the stack of an
// existing entry. Each stack is found right after it was stored.
TEST_F(RecentStacksTest, DoNotTakeMoreThanTheirPart) {
  open(kEnough);
  const uint64_t before = trace_memory_used();
  for (uint64_t i = 0; i < kRecentPlaces; i++) {
    stacks_[0].frames()[0][1] = 0x1000 + i;
    EXPECT_TRUE(keep(stacks_[0])) << i;
    EXPECT_TRUE(has(stacks_[0])) << i;
  }
  EXPECT_LE(trace_memory_used(), before + (3 + kPagesPerHook) * kPageSize);
}

}  // namespace
