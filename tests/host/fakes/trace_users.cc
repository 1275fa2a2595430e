// Users of the tables of stacks and contexts; these tests forget nothing.
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
