// Memory that each dump works in, which it gets also when there is none left.
//
// A dump is wanted most when memory is full. So one workspace is kept in reserve as long as
// anything is traced; a dump that cannot get one from memory takes the reserve, and others that
// want it wait until it is given back. Whoever takes a workspace does so before anything else that
// others could wait for (a snapshot), so nobody who has the reserve waits for one who wants it.
#pragma once

#include <cstddef>
#include <span>

#include "lib/result.h"

inline constexpr size_t kDumpWorkspace = 128 * 1024;

// There is a reserve as long as anybody holds it. May sleep; the first takes memory: ENOMEM.
Result<void> dump_reserve_hold();
void dump_reserve_drop();

// kDumpWorkspace bytes, page-aligned, undefined. May sleep, and waits for the reserve when there is
// no memory: EINTR. ENOMEM when there is no reserve either: nothing is traced.
Result<std::span<std::byte>> dump_workspace_take();
void dump_workspace_give_back(std::span<std::byte> workspace);
