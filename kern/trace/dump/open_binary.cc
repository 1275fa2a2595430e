#include "trace/dump/open_binary.h"

#include <new>

#include "core/planted.h"
#include "intern/dump_reserve.h"
#include "intern/shared_tables.h"

TraceBinaryDump::TraceBinaryDump(std::span<std::byte> workspace)
    : TableUser(Holds::kCopies),
      binary(workspace.last(TraceBinary::kRoom), trace_stacks, trace_contexts),
      workspace_(workspace) {}

Result<TraceBinaryDump*> TraceBinaryDump::create() {
  static_assert(sizeof(TraceBinaryDump) <= kDumpWorkspace - TraceBinary::kRoom);
  const std::span<std::byte> workspace = TRY(dump_workspace_take());
  return new (workspace.data()) TraceBinaryDump(workspace);
}

void TraceBinaryDump::destroy(TraceBinaryDump* dump) {
  const std::span<std::byte> workspace = dump->workspace_;
  if (dump->is_user()) trace_users_drop(*dump);
  dump->~TraceBinaryDump();
  if (!planted(Planted::kDumpCopy)) dump_workspace_give_back(workspace);
}
