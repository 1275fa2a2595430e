// Fakes of trace_users_add() and trace_users_drop(). They only set StoreHolder::is_user_. In tests
// with these fakes, no sweep removes unused stacks and contexts.
#include "store/shared_tables.h"

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
