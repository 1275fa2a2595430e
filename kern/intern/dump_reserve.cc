#include "intern/dump_reserve.h"

#include <cstdint>
#include <utility>

#include "core/sleep.h"
#include "core/spinlock.h"
#include "intern/trace_memory.h"

namespace {

constinit Spinlock lock{LockRank::kDevice};
constinit WaitQueue waiters;
constinit std::byte* reserve GUARDED_BY(lock) = nullptr;
constinit bool in_use GUARDED_BY(lock) = false;
constinit uint32_t users GUARDED_BY(lock) = 0;

// If nobody needs the reserve any more, returns it for the caller to free; otherwise nullptr.
std::byte* take_unwanted() REQUIRES(lock) {
  if (users > 0 || in_use) return nullptr;
  std::byte* const unwanted = reserve;
  reserve = nullptr;
  return unwanted;
}

void free_workspace(std::byte* memory) {
  if (memory) trace_copy_free(memory, kDumpWorkspace);
}

}  // namespace

Result<void> dump_reserve_hold() {
  {
    const Guard guard(lock);
    if (users > 0) {
      users++;
      return {};
    }
  }
  auto* memory = static_cast<std::byte*>(trace_copy_alloc(kDumpWorkspace));
  {
    const Guard guard(lock);
    // The reserve already exists if another user has allocated it meanwhile, or if a dump of an
    // earlier trace still uses it.
    if (!reserve) reserve = std::exchange(memory, nullptr);
    if (!reserve) return Errno::ENOMEM;
    users++;
  }
  free_workspace(memory);
  return {};
}

void dump_reserve_drop() {
  std::byte* unwanted;
  bool last;
  {
    const Guard guard(lock);
    last = --users == 0;
    unwanted = take_unwanted();
  }
  if (last) waiters.wake_all();
  free_workspace(unwanted);
}

Result<std::span<std::byte>> dump_workspace_take() {
  if (auto* memory = static_cast<std::byte*>(trace_copy_alloc(kDumpWorkspace)))
    return std::span(memory, kDumpWorkspace);
  const Guard guard(lock);
  TRY(waiters.wait(lock, []() REQUIRES(lock) { return !in_use || users == 0; }));
  if (users == 0) return Errno::ENOMEM;
  in_use = true;
  return std::span(reserve, kDumpWorkspace);
}

void dump_workspace_give_back(std::span<std::byte> workspace) {
  std::byte* unwanted = workspace.data();
  {
    const Guard guard(lock);
    if (unwanted == reserve) {
      in_use = false;
      unwanted = take_unwanted();
    }
  }
  waiters.wake_all();  // not wake_one: the woken waiter may be killed before it runs
  free_workspace(unwanted);
}
