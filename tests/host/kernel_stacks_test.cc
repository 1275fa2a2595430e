// Tests how the number of the current kernel stack is found (intern/kernel_stacks.h), on stacks
// that the tests make: whatever the CPU's hint names, the result must be the stack that a plain
// walk finds.
#include "intern/kernel_stacks.h"

#include <asm/prctl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "arch/x86_64/frames.h"
#include "trace_world.h"

StackTable trace_stacks;

namespace {

// Return addresses from 0x1001 to 0x1fff are the allocator's (trace_LINK in host.mk).
constexpr uint64_t kAllocator = 0x1800, kCaller = 0x2000;

// The stacks of two tasks, with a chain of frames on one of them.
class Stacks {
 public:
  uint64_t top(size_t task) const {
    return reinterpret_cast<uint64_t>(&memory_[task]) + kKernelStackSize;
  }
  // Makes frames with these return addresses, innermost first, `gap` words apart, so that the last
  // one is `above` words below the end of the stack. The last frame saves the frame pointer `end`.
  void make(size_t task, const std::vector<uint64_t>& addresses, size_t gap, size_t above,
            uint64_t end) {
    uint64_t next = end;
    auto* frame = reinterpret_cast<uint64_t*>(top(task)) - 2 - above;
    for (auto address = addresses.rbegin(); address != addresses.rend(); ++address) {
      frame[0] = next;
      frame[1] = *address;
      next = reinterpret_cast<uint64_t>(frame);
      frame -= gap;
    }
    bottom_ = next;
  }
  uint64_t bottom() const { return bottom_; }

 private:
  struct alignas(4096) Memory {
    uint64_t words[kKernelStackSize / 8];
  };
  std::unique_ptr<Memory[]> memory_{new Memory[2]()};
  uint64_t bottom_ = 0;
};

class KernelStacksTest : public testing::Test {
 protected:
  void SetUp() override {
    cpu_.self = &cpu_;
    cpu_.current = &task_;
    ASSERT_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, &cpu_), 0);
    ASSERT_TRUE(trace_stacks.open().ok());
    stack_hints_open(1);
  }
  void TearDown() override {
    stack_hints_close();
    trace_stacks.clear();
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }
  // Runs as the task whose stack this is.
  void run(size_t task) { cpu_.kernel_stack = stacks_.top(task); }

  // The result for a stack with these return addresses, as a walk and a look-up would have it.
  static uint64_t expected(std::vector<uint64_t> frames, StackFrom from, uint32_t depth) {
    if (from == StackFrom::kCallers) {
      const auto in_allocator = [](uint64_t address) { return address == kAllocator; };
      frames.erase(frames.begin(), std::find_if_not(frames.begin(), frames.end(), in_allocator));
    }
    const bool truncated = frames.size() > depth;
    if (truncated) frames.resize(depth);
    const StackId id = trace_stacks.intern(StackKind::kKernel, frames.data(), frames.size());
    return number_of(id) | (truncated ? kStackTruncated : 0);
  }

  Cpu cpu_ = {};
  TaskHead task_ = {};
  Stacks stacks_;
};

// Would find a comparison that stops too early or too late, and a hint that survives when only one
// outer frame differs. A stack of one frame has no hint.
TEST_F(KernelStacksTest, AHintIsUsedOnlyForTheStackThatAWalkFinds) {
  std::mt19937_64 random(1);
  unsigned hinted = 0;
  for (int i = 0; i < 200'000; i++) {
    const size_t task = random() % 2;
    run(task);
    std::vector<uint64_t> frames(random() % 3, kAllocator);
    const size_t callers = 1 + random() % 20;
    for (size_t j = 0; j < callers; j++) frames.push_back(kCaller + (random() % 8 == 0 ? 16 : 0));
    const uint64_t ends[] = {0, 0x7fff00001000, cpu_.kernel_stack - 8, stacks_.top(1 - task) - 64};
    stacks_.make(task, frames, 2 + random() % 2, 8, ends[random() % std::size(ends)]);
    const auto depth = static_cast<uint32_t>(random() % 2 == 0 ? 32 : 1 + random() % 20);
    const StackFrom from = random() % 4 == 0 ? StackFrom::kFrame : StackFrom::kCallers;
    const uint64_t right = expected(frames, from, depth);
    const uint64_t by_hint = hinted_kernel_stack(from, stacks_.bottom(), StackDepth(depth));
    hinted += by_hint != 0;
    ASSERT_TRUE(by_hint == 0 || by_hint == right) << i;
    ASSERT_EQ(learn_kernel_stack(from, stacks_.bottom(), StackDepth(depth)), right) << i;
    const bool has_hint = (from == StackFrom::kFrame ? frames.size() : callers) > 1;
    ASSERT_EQ(hinted_kernel_stack(from, stacks_.bottom(), StackDepth(depth)), has_hint ? right : 0)
        << i << " " << frames.size() << " frames, depth " << depth;
  }
  EXPECT_GT(hinted, 1000u);
}

TEST_F(KernelStacksTest, AnotherTasksStackHasTheSameHint) {
  for (const size_t task : {0, 1}) {
    run(task);
    stacks_.make(task, {kCaller, kCaller + 16, kCaller + 32}, 6, 4, 0);
    const uint64_t hint =
        hinted_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32));
    const uint64_t right =
        learn_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32));
    EXPECT_EQ(hint, task == 0 ? 0 : right);
  }
}

TEST_F(KernelStacksTest, WhatIsClearedIsNoHint) {
  run(0);
  stacks_.make(0, {kCaller, kCaller + 16}, 6, 4, 0);
  const uint64_t stack = learn_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32));
  EXPECT_EQ(hinted_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32)), stack);
  stack_hints_clear();
  EXPECT_EQ(hinted_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32)), 0u);
}

// Without pages, all CPUs share hints that must never be set.
TEST_F(KernelStacksTest, WithoutAPageThereAreNoHints) {
  stack_hints_close();
  run(0);
  stacks_.make(0, {kCaller, kCaller + 16}, 6, 4, 0);
  EXPECT_NE(learn_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32)), 0u);
  EXPECT_EQ(hinted_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32)), 0u);
}

TEST_F(KernelStacksTest, AStackThatCannotBeStoredHasNoNumber) {
  run(0);
  uint64_t address = kCaller;
  TraceWorld::fail_pages(100);
  do {
    stacks_.make(0, {address += 16}, 6, 4, 0);
  } while (learn_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32)) != 0);
  TraceWorld::fail_pages(0);
  EXPECT_NE(learn_kernel_stack(StackFrom::kCallers, stacks_.bottom(), StackDepth(32)), 0u);
}

}  // namespace

size_t walk_kernel_stack(uint64_t, uint64_t*, size_t) {
  ADD_FAILURE() << "these stacks are the task's own";
  return 0;
}
