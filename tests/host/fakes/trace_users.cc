// Also a fake of the clock, which shows what a test has stored in it.
#include "fakes/trace_users.h"

#include <atomic>

#include "arch/x86_64/time.h"

std::atomic<uint64_t> coarse_time{0};

class TableUsers {
 public:
  static void set_user(TableUser& user, bool is_user) { user.is_user_ = is_user; }
};

Result<void> trace_users_add(TableUser& user) {
  TableUsers::set_user(user, true);
  return {};
}

static std::atomic<void (*)()> when_dropped{nullptr};

void trace_users_drop(TableUser& user) {
  TableUsers::set_user(user, false);
  if (const auto function = when_dropped.exchange(nullptr)) function();
}

void at_next_drop(void (*function)()) {
  when_dropped = function;
}

RetainingStopped::RetainingStopped() = default;
RetainingStopped::~RetainingStopped() = default;

NumbersReading::NumbersReading() : side_(0) {}
NumbersReading::~NumbersReading() = default;
