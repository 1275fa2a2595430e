// System calls on memory.
#include "src/proc/system_call.h"

Result<int64_t> sys_brk(const SystemCall& call) {
  return static_cast<int64_t>(call.process.space->move_break(call.arguments[0]));
}

Result<int64_t> sys_mmap(const SystemCall& call) {
  const uint32_t protection = call.word(2), flags = call.word(3);
  constexpr uint32_t kProtection = ABI_PROT_READ | ABI_PROT_WRITE | ABI_PROT_EXEC;
  if ((protection & ~kProtection) || !(flags & ABI_MAP_ANONYMOUS) || !(flags & ABI_MAP_PRIVATE)) return Errno::EINVAL;
  return static_cast<int64_t>(
      TRY(call.process.space->map_anonymous(call.arguments[0], call.arguments[1], protection, flags & ABI_MAP_FIXED)));
}

Result<int64_t> sys_munmap(const SystemCall& call) {
  TRY(call.process.space->unmap(call.arguments[0], call.arguments[1]));
  return 0;
}
