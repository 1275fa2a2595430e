// Fakes of the shared tables' users. trace_users_add() and trace_users_drop() only set
// TableUser::is_user_. In tests with these fakes, no sweep removes unused stacks and contexts.
#pragma once

#include "intern/shared_tables.h"

// Makes the next trace_users_drop() call the function, after the user has been removed.
// The function can do what another CPU might do at that moment.
void at_next_drop(void (*function)());
