// System calls: one function for each, in sys_*.cc.
#pragma once

#include <cstdint>
#include <type_traits>

#include "abi/syscall.h"
#include "arch/x86_64/trap.h"
#include "core/user_memory.h"
#include "lib/result.h"
#include "proc/process_impl.h"

// A system call: its caller, and the six argument registers.
struct SystemCall {
  Process& process;
  Thread& thread;
  TrapFrame& frame;
  uint64_t arguments[6];

  int integer(unsigned i) const { return static_cast<int>(arguments[i]); }
  uint32_t word(unsigned i) const { return static_cast<uint32_t>(arguments[i]); }
};

// Each function returns the value for rax, or an error.
#define DECLARE_SYSTEM_CALL(name, number) Result<int64_t> sys_##name(const SystemCall& call);
ABI_SYSCALLS(DECLARE_SYSTEM_CALL)
#undef DECLARE_SYSTEM_CALL

// Handles system calls (TrapHandlers).
void system_call(TrapFrame& frame);

// A path argument, copied from the program. EFAULT, ENAMETOOLONG, ENOMEM; ENOENT when it is empty.
class UserPath {
 public:
  Result<void> copy(uint64_t address);
  // Copies a path that may be empty. EFAULT, ENAMETOOLONG, ENOMEM.
  Result<void> copy_any(uint64_t address);
  // Only after a copy.
  std::string_view view() const { return {text_.path(), size_}; }

 private:
  PathBuffer text_;
  size_t size_ = 0;
};

// Implements fcntl's commands ABI_F_GETLK, ABI_F_SETLK and ABI_F_SETLKW.
Result<int64_t> record_lock_command(const SystemCall& call);

// Two arguments of a call: an open directory (or ABI_AT_FDCWD), and a path. If the path is
// relative, it starts in this directory.
class PathAt {
 public:
  // Copies arguments `i` and `i + 1`. An empty path requires ABI_AT_EMPTY_PATH in `flags`. EBADF,
  // ENOTDIR, EFAULT, ENAMETOOLONG, ENOENT, ENOMEM.
  Result<void> copy(const SystemCall& call, unsigned i, uint32_t flags = 0);
  const PathContext& context() const { return context_; }
  // From now on walk() uses the rights of `who` instead of the process's effective rights.
  void act_as(const Credentials& who) { context_.who = who; }
  std::string_view view() const { return path_.view(); }
  // Returns the file that the path names. An empty path names the open file of argument `i`, or the
  // current directory if this argument is ABI_AT_FDCWD. With ABI_AT_SYMLINK_NOFOLLOW in copy's
  // `flags`, a link at the end of the path is not followed.
  Result<Ref<Chan>> walk() const;

 private:
  UserPath path_;
  Ref<Chan> directory_;  // the file that an empty path names
  PathContext context_{};
  uint32_t flags_ = 0;
};

// Copies a structure to the program, or from it. Padding of a structure would carry bytes of kernel
// memory to the program, so put_user takes no structure with padding.
template <typename T>
Result<void> put_user(uint64_t address, const T& value) {
  static_assert(std::has_unique_object_representations_v<T>);
  return copy_to_user(address, &value, sizeof(T));
}
template <typename T>
Result<void> get_user(uint64_t address, T& value) {
  return copy_from_user(&value, address, sizeof(T));
}

// Converts usage to the format of times and wait4.
abi_rusage rusage_of(const Usage& usage);

// --- Limits (sys_limit.cc).

// Checks that the process may have `more` additional bytes of memory. If `writable`, the bytes also
// count for the limit of data. ENOMEM. May sleep.
Result<void> limit_allows_memory(Process& process, uint64_t more, bool writable);
// Called before `size` bytes are written to the open file `chan` at `offset`. Returns how many of
// the bytes are below the limit of file sizes. If no byte is below the limit, sends SIGXFSZ and
// fails with EFBIG.
Result<size_t> limit_allows_write(Process& process, Chan& chan, uint64_t offset, size_t size);
// Checks that the file's size may be changed to `size` bytes. If the file would grow beyond the
// limit of file sizes, sends SIGXFSZ and fails with EFBIG.
Result<void> limit_allows_size(Process& process, Chan& chan, uint64_t size);

// --- Times.

inline constexpr Nanoseconds kForever{UINT64_MAX};
abi_timespec timespec_of(Nanoseconds time);
// Converts a duration or a time. Returns INT64_MAX nanoseconds if the value is too large. EINVAL.
Result<Nanoseconds> duration_of(const abi_timespec& time);
// Converts an abi_timespec in user memory with duration_of. EINVAL, EFAULT.
Result<Nanoseconds> get_duration(uint64_t address);
// Returns the monotonic time that is `duration` from now.
Nanoseconds deadline_after(Nanoseconds duration);
// Converts `time` of `clock` (ABI_CLOCK_REALTIME or a monotonic clock) to monotonic time. The
// result is right as long as nobody sets `clock`. Returns 0 if ABI_CLOCK_REALTIME has already
// reached `time`.
Nanoseconds deadline_at(int clock, Nanoseconds time);

// --- Signals.

// Replaces the thread's mask of blocked signals during one system call. Signals outside of the new
// mask interrupt the call. If no signal interrupts the call, the old mask is restored when the call
// ends. Otherwise the old mask is restored when the signal's handler returns, or when the restarted
// call has ended.
class TemporaryMask {
 public:
  // Made before anything that can fail, because a restarted call begins with its temporary mask.
  explicit TemporaryMask(Thread& thread) : thread_(thread) {}
  ~TemporaryMask();
  TemporaryMask(const TemporaryMask&) = delete;
  TemporaryMask& operator=(const TemporaryMask&) = delete;

  // Sets the mask from `address` in the program. EFAULT.
  Result<void> set(uint64_t address);
  // Leaves the new mask in force: called when the call was interrupted.
  void keep() { is_kept_ = true; }

 private:
  Thread& thread_;
  bool is_kept_ = false;
};
