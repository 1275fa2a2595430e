// System calls on memory.
#include "core/errstr.h"
#include "core/planted.h"
#include "proc/system_call.h"
#include "proc/user_probes.h"

namespace {

constexpr uint32_t kProtection = ABI_PROT_READ | ABI_PROT_WRITE | ABI_PROT_EXEC;

Result<uint64_t> map(Process& process, uint64_t address, uint64_t size, uint32_t protection,
                     bool fixed) {
  if (!planted(Planted::kMapRoom))
    return process.space->map_anonymous(address, size, protection, fixed);
  const HeldRef<AddressSpace> space = Ref<AddressSpace>(process.space).release();
  const uint64_t mapped = TRY(space.object->map_anonymous(address, size, protection, fixed));
  Ref<AddressSpace>::adopt(space).reset();
  return mapped;
}

}  // namespace

Result<int64_t> sys_brk(const SystemCall& call) {
  AddressSpace& space = *call.process.space;
  const uint64_t end = call.arguments[0], before = space.move_break(0);
  if (end > before && !limit_allows_memory(call.process, end - before, true))
    return static_cast<int64_t>(before);
  return static_cast<int64_t>(space.move_break(end));
}

Result<int64_t> sys_mmap(const SystemCall& call) {
  const uint32_t protection = call.word(2), flags = call.word(3);
  if ((protection & ~kProtection) || !(flags & ABI_MAP_ANONYMOUS) || !(flags & ABI_MAP_PRIVATE))
    return Errno::EINVAL;
  const uint64_t address = call.arguments[0], size = call.arguments[1];
  const bool fixed = flags & ABI_MAP_FIXED;
  TRY(limit_allows_memory(call.process, size, protection & ABI_PROT_WRITE));
  const MemoryOrder order(call.process.memory_mutex);
  const uint64_t mapped = TRY(map(call.process, address, size, protection, fixed));
  if (fixed) user_probes_memory(MemoryChange::kUnmapped, mapped, align_up(size, kPageSize));
  user_probes_memory(MemoryChange::kMapped, mapped, size);
  return static_cast<int64_t>(mapped);
}

Result<int64_t> sys_munmap(const SystemCall& call) {
  const uint64_t address = call.arguments[0], size = call.arguments[1];
  const MemoryOrder order(call.process.memory_mutex);
  TRY(call.process.space->unmap(address, size));
  user_probes_memory(MemoryChange::kUnmapped, address, align_up(size, kPageSize));
  return 0;
}

Result<int64_t> sys_mprotect(const SystemCall& call) {
  const uint64_t address = call.arguments[0], size = call.arguments[1];
  const uint32_t protection = call.word(2);
  if (protection & ~kProtection) return Errno::EINVAL;
  AddressSpace& space = *call.process.space;
  const uint64_t limit = call.process.limits.soft(ABI_RLIMIT_DATA);
  if ((protection & ABI_PROT_WRITE) && limit != ABI_RLIM_INFINITY) {
    const uint64_t data = space.sizes().data + space.unwritable_bytes(address, size);
    if (data > limit) return fail(Errno::ENOMEM, "the limit of data is %lu bytes", limit);
  }
  TRY(space.protect(address, size, protection));
  return 0;
}

Result<int64_t> sys_msync(const SystemCall&) {
  return Errno::ENOSYS;
}
