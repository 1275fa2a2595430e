// Workspaces of dumps. One of them is kept in reserve.
//
// Dumps are most needed when memory is full. So a workspace is kept in reserve while anything is
// traced. A dump that cannot allocate a workspace takes the reserve; other dumps that need the
// reserve wait until it is given back. A dump takes its workspace before it takes anything that
// other dumps may wait for (a snapshot). So the dump with the reserve never waits for a dump that
// waits for the reserve.
#pragma once

#include <cstddef>
#include <span>

#include "lib/result.h"

inline constexpr size_t kDumpWorkspace = 128 * 1024;

// Adds a user of the reserve, which exists while it has a user. The first user allocates the
// reserve; ENOMEM if there is no memory. May sleep.
Result<void> dump_reserve_hold();
// Removes a user.
void dump_reserve_drop();

// Takes a workspace of kDumpWorkspace bytes, page-aligned, with undefined contents. If there is no
// memory, waits for the reserve. EINTR: a signal has ended the wait. ENOMEM: there is no reserve,
// because nothing is traced. May sleep.
Result<std::span<std::byte>> dump_workspace_take();
void dump_workspace_give_back(std::span<std::byte> workspace);
