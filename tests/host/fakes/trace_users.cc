// Fakes of trace_users_add() and trace_users_drop(), and of the clock. The former only set
// StoreHolder::is_user_. In tests with these fakes, no sweep removes unused stacks and contexts,
// and the clock shows what a test has stored in it.
#include "arch/x86_64/time.h"
#include "store/shared_tables.h"

std::atomic<uint64_t> coarse_time{0};

class StoreHolders {
 public:
  static void set_user(StoreHolder& holder, bool is_user) { holder.is_user_ = is_user; }
};

Result<void> trace_users_add(StoreHolder& holder) {
  StoreHolders::set_user(holder, true);
  return {};
}

void trace_users_drop(StoreHolder& holder) {
  StoreHolders::set_user(holder, false);
}
