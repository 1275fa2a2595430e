// An open binary dump, in a workspace (dump_reserve.h). A dump with counts of frees is a user of
// the shared tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sleep.h"
#include "intern/shared_tables.h"
#include "trace/dump/binary.h"

class TraceBinaryDump final : public TableUser {
 public:
  // Makes an empty dump in a workspace. May sleep. EINTR, ENOMEM (dump_workspace_take).
  static Result<TraceBinaryDump*> create();
  // Gives the workspace back. May sleep; the caller holds no sleeping lock of a rank below
  // kTraceSweep.
  static void destroy(TraceBinaryDump* dump);
  void retain(Retained& retained) override { binary.retain(retained); }

  TraceBinary binary;

  // Calls TraceBinary::read(), which allows one reader at a time, with a lock held. So any number
  // of tasks may call this function.
  size_t read(char* buffer, size_t size, uint64_t offset) {
    const MutexGuard guard(reading_);
    return binary.read(buffer, size, offset);
  }

 private:
  explicit TraceBinaryDump(std::span<std::byte> workspace);

  const std::span<std::byte> workspace_;
  Mutex reading_{LockRank::kTraceReader};
};
