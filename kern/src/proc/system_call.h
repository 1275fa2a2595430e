// System calls: one function for each, in sys_*.cc.
#pragma once

#include <cstdint>

#include "abi/syscall.h"
#include "arch/x86_64/trap.h"
#include "core/user_memory.h"
#include "lib/result.h"
#include "proc/process_impl.h"

// A system call being made: by whom, and the six argument registers.
struct SystemCall {
  Process& process;
  TrapFrame& frame;
  uint64_t arguments[6];

  int integer(unsigned i) const { return static_cast<int>(arguments[i]); }
  uint32_t word(unsigned i) const { return static_cast<uint32_t>(arguments[i]); }
};

// Each returns what rax gets, or its error.
#define DECLARE_SYSTEM_CALL(name, number) Result<int64_t> sys_##name(const SystemCall& call);
ABI_SYSCALLS(DECLARE_SYSTEM_CALL)
#undef DECLARE_SYSTEM_CALL

// For TrapHandlers.
void system_call(TrapFrame& frame);

// A path argument, copied in. EFAULT, ENAMETOOLONG; ENOENT when it is empty.
class UserPath {
 public:
  Result<void> copy(uint64_t address);
  // The same, but it may be empty.
  Result<void> copy_any(uint64_t address);
  std::string_view view() const { return {text_, size_}; }

 private:
  char text_[1024];
  size_t size_ = 0;
};

// fcntl's ABI_F_GETLK, ABI_F_SETLK and ABI_F_SETLKW.
Result<int64_t> record_lock_command(const SystemCall& call);

// Two arguments, an open directory (or ABI_AT_FDCWD) and a path that begins there if it is
// relative.
class PathAt {
 public:
  // Arguments `i` and `i + 1`. An empty path is only taken with ABI_AT_EMPTY_PATH in `flags`.
  // EBADF, ENOTDIR, EFAULT, ENAMETOOLONG, ENOENT.
  Result<void> copy(const SystemCall& call, unsigned i, uint32_t flags = 0);
  const PathContext& context() const { return context_; }
  std::string_view view() const { return path_.view(); }
  // The file: for an empty path the open one. With ABI_AT_SYMLINK_NOFOLLOW in copy's `flags` a link
  // at the end of the path is the file.
  Result<Ref<Chan>> walk() const;

 private:
  UserPath path_;
  Ref<Chan> directory_;
  PathContext context_{};
  uint32_t flags_ = 0;
};

// Copies a structure to the program, or from it.
template <typename T>
Result<void> put_user(uint64_t address, const T& value) {
  return copy_to_user(address, &value, sizeof(T));
}
template <typename T>
Result<void> get_user(uint64_t address, T& value) {
  return copy_from_user(&value, address, sizeof(T));
}

// As times and wait4 give it, from scheduler ticks.
abi_rusage rusage_of(uint64_t user_ticks, uint64_t system_ticks);
