// Also a fake of the clock, which shows what a test has stored in it.
#include "fakes/trace_users.h"

#include <atomic>

#include "arch/x86_64/time.h"

std::atomic<uint64_t> coarse_time{0};

class StoreHolders {
 public:
  static void set_user(StoreHolder& holder, bool is_user) { holder.is_user_ = is_user; }
};

Result<void> trace_users_add(StoreHolder& holder) {
  StoreHolders::set_user(holder, true);
  return {};
}

static std::atomic<void (*)()> when_dropped{nullptr};

void trace_users_drop(StoreHolder& holder) {
  StoreHolders::set_user(holder, false);
  if (const auto function = when_dropped.exchange(nullptr)) function();
}

void at_next_drop(void (*function)()) {
  when_dropped = function;
}

StoreMarkingStopped::StoreMarkingStopped() = default;
StoreMarkingStopped::~StoreMarkingStopped() = default;
