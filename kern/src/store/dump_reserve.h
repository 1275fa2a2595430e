// Workspaces of dumps, of which one is reserved for when memory is full.
//
// Dumps are most needed when memory is full. So one workspace is kept in reserve while anything is
// traced. A dump that cannot allocate a workspace takes the reserve; others that need the reserve
// wait until it is given back. A dump takes its workspace before anything else that others wait for
// (a snapshot), so the user of the reserve never waits for a dump that waits for the reserve.
#pragma once

#include <cstddef>
#include <span>

#include "lib/result.h"

inline constexpr size_t kDumpWorkspace = 128 * 1024;

// Holds and drops the reserve, which exists while it has a holder. Holding may sleep; the first
// holder allocates it: ENOMEM.
Result<void> dump_reserve_hold();
void dump_reserve_drop();

// kDumpWorkspace bytes, page-aligned, undefined. May sleep, and waits for the reserve when memory
// is out: EINTR. ENOMEM if there is no reserve either: nothing is traced.
Result<std::span<std::byte>> dump_workspace_take();
void dump_workspace_give_back(std::span<std::byte> workspace);
