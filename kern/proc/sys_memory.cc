// System calls on memory.
#include "core/errstr.h"
#include "core/planted.h"
#include "proc/system_call_impl.h"
#include "proc/user_probes_impl.h"

namespace {

constexpr uint32_t kProtection = ABI_PROT_READ | ABI_PROT_WRITE | ABI_PROT_EXEC;
constexpr uint32_t kFlags = ABI_MAP_SHARED | ABI_MAP_PRIVATE | ABI_MAP_FIXED | ABI_MAP_ANONYMOUS;

Result<uint64_t> map(Process& process, uint64_t address, uint64_t size, uint32_t protection,
                     bool fixed, AddressSpace::Mapping mapping) {
  if (!planted(Planted::kMapRoom))
    return process.space->map(address, size, protection, fixed, std::move(mapping));
  const HeldRef<AddressSpace> space = Ref<AddressSpace>(process.space).release();
  const uint64_t mapped =
      TRY(space.object->map(address, size, protection, fixed, std::move(mapping)));
  Ref<AddressSpace>::adopt(space).reset();
  return mapped;
}

// Makes the mapping that mmap's flags, descriptor and offset describe.
Result<AddressSpace::Mapping> mapping_of(const SystemCall& call, uint64_t size,
                                         uint32_t protection) {
  const uint32_t flags = call.word(3);
  AddressSpace::Mapping mapping;
  mapping.shared = flags & ABI_MAP_SHARED;
  if (flags & ABI_MAP_ANONYMOUS) {
    if (mapping.shared) mapping.file = TRY(shared_memory_create(size));
    return mapping;
  }
  mapping.file = TRY(fd_get(*call.process.fds, call.integer(4)));
  mapping.offset = call.arguments[5];
  if (mapping.offset % kPageSize != 0)
    return fail(Errno::EINVAL, "the offset of a map must be a multiple of %zu", kPageSize);
  if (mapping.offset > INT64_MAX || size > INT64_MAX - mapping.offset) return Errno::EINVAL;
  Chan& file = *mapping.file;
  const uint32_t access = file.open_flags & ABI_O_ACCMODE;
  mapping.may_write = !mapping.shared || access == ABI_O_RDWR;
  if (access == ABI_O_WRONLY)
    return fail(Errno::EACCES, "a file must be open for reading to be mapped");
  if ((protection & ABI_PROT_WRITE) && !mapping.may_write)
    return fail(Errno::EACCES, "the file is not open for writing");
  TRY(file.device->map(file, mapping.shared && mapping.may_write));
  return mapping;
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
  const bool shared = flags & ABI_MAP_SHARED;
  if ((protection & ~kProtection) || (flags & ~kFlags) ||
      shared == ((flags & ABI_MAP_PRIVATE) != 0))
    return Errno::EINVAL;
  const uint64_t address = call.arguments[0], size = call.arguments[1];
  const bool fixed = flags & ABI_MAP_FIXED;
  if (size == 0) return Errno::EINVAL;
  TRY(limit_allows_memory(call.process, size, !shared && (protection & ABI_PROT_WRITE)));
  AddressSpace::Mapping mapping = TRY(mapping_of(call, size, protection));
  const MemoryOrder order(call.process.memory_mutex);
  const uint64_t mapped =
      TRY(map(call.process, address, size, protection, fixed, std::move(mapping)));
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

Result<int64_t> sys_msync(const SystemCall& call) {
  const uint32_t flags = call.word(2);
  if ((flags & ~uint32_t{ABI_MS_ASYNC | ABI_MS_SYNC | ABI_MS_INVALIDATE}) ||
      (flags & (ABI_MS_ASYNC | ABI_MS_SYNC)) == (ABI_MS_ASYNC | ABI_MS_SYNC))
    return Errno::EINVAL;
  // A mapping uses the pages of the page cache, so ABI_MS_INVALIDATE has nothing to do.
  TRY(call.process.space->sync(call.arguments[0], call.arguments[1], flags & ABI_MS_SYNC));
  return 0;
}
