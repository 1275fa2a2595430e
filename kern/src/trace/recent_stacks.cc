#include "recent_stacks.h"

#include "arch/x86_64/context.h"
#include "trace_memory.h"

constinit RecentStacks recent_stacks[kMaxCpus] = {};

namespace {

// The pages of all CPUs are at most this part of the limit.
constexpr uint64_t kPartOfLimit = 16;

bool take_pages(RecentStacks& recent) {
  for (RecentPage*& place : recent.pages) {
    trace_memory_prepare();
    auto* page = static_cast<RecentPage*>(trace_page_take());
    if (!page) return false;
    for (RecentStack& stack : *page) stack.forget();
    place = page;
  }
  return true;
}

}  // namespace

bool RecentStack::ends(uint64_t next) const {
  if (end_ == End::kOutside) return outside(next, pointers_[count_ - 1] + 16);
  return next == pointers_[count_] && reinterpret_cast<const uint64_t*>(next)[1] == 0;
}

size_t RecentStack::walk(uint64_t frame_pointer, uint32_t max, const Cpu& cpu) {
  forget();
  top_ = cpu.kernel_stack;
  uint64_t above = top_ - kKernelStackSize;
  count_ = 0;
  end_ = End::kOutside;
  for (uint64_t pointer = frame_pointer; !outside(pointer, above);) {
    const auto* memory = reinterpret_cast<const uint64_t*>(pointer);
    pointers_[count_] = pointer;
    return_addresses_[count_] = memory[1];
    if (memory[1] == 0) {
      end_ = End::kZero;
      break;
    }
    if (++count_ == max) {
      end_ = End::kMax;
      break;
    }
    if (count_ == kMaxFrames) return 0;
    above = pointer + 16;
    pointer = memory[0];
  }
  wanted_ = max;
  return count_;
}

void recent_stacks_open(uint32_t cpus) {
  if (cpus * kRecentPages * kPageSize * kPartOfLimit > trace_memory_limit()) return;
  for (uint32_t cpu = 0; cpu < cpus; cpu++) {
    if (take_pages(recent_stacks[cpu])) continue;
    recent_stacks_close();
    return;
  }
}

void recent_stacks_close() {
  for (RecentStacks& recent : recent_stacks) {
    for (RecentPage*& page : recent.pages) {
      if (page) trace_page_free(page);
      page = nullptr;
    }
  }
}
