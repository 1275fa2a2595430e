// System calls on descriptors: reading, writing, and other operations on open files.
//
// Devices see kernel memory only, so no device touches user memory while it holds locks. A call
// copies the program's data through a buffer in kernel memory (Bounce). A small buffer is part of
// the thread.
#include <algorithm>

#include "core/errstr.h"
#include "core/log.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "proc/system_call_impl.h"

namespace {

constexpr size_t kLargestTransfer = 64 << 10;  // maximum number of bytes copied at a time
static_assert(kLargestTransfer >= Device::kLargestCommand);
constexpr uint32_t kSettableFlags = ABI_O_APPEND | ABI_O_NONBLOCK;

// newlib's fcntl numbers.
constexpr int kDupFd = 0, kGetFd = 1, kSetFd = 2, kGetFlags = 3, kSetFlags = 4,
              kDupFdCloseOnExec = 14;
constexpr uint64_t kFdCloseOnExec = 1;
constexpr int kSeekSet = 0, kSeekCurrent = 1, kSeekEnd = 2;

// Kernel memory for one transfer. A thread has one Bounce at a time. The memory is not searched for
// pointers, because programs choose the bytes; so it is not on the stack.
class Bounce {
 public:
  Bounce() = default;
  ~Bounce() { kfree(large_); }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;

  // Allocates a buffer for a transfer of `wanted` bytes, or of kLargestTransfer bytes if `wanted`
  // is larger. If memory is short, or the user has too much of it, allocates a buffer of one page,
  // unless `whole` is set. ENOMEM.
  Result<void> make(uint64_t wanted, bool whole = false) {
    size_ = std::min<uint64_t>(wanted, kLargestTransfer);
    data_ = self_thread().bytes().transfer;
    if (size_ <= sizeof(ThreadBytes::transfer)) return {};
    Result<void> made = allocate();
    if (!made && size_ > kPageSize && !whole) {
      size_ = kPageSize;
      made = allocate();
    }
    data_ = large_;
    return made;
  }
  char* data() { return data_; }
  size_t size() const { return size_; }

 private:
  // Allocates size_ bytes. A page belongs to the thread (user_account.cc). ENOMEM.
  Result<void> allocate() {
    if (size_ > kPageSize) charge_ = TRY(charge_current(Charged::kBufferByte, size_));
    large_ = static_cast<char*>(kmalloc_bytes(size_, KM_SLEEP));
    return large_ ? Result<void>() : Errno::ENOMEM;
  }

  char* data_ = nullptr;
  char* large_ = nullptr;
  size_t size_ = 0;
  Charge charge_;
};

Result<Ref<Chan>> get_file(const SystemCall& call) {
  return fd_get(*call.process.fds, call.integer(0));
}

// Return the open file of the descriptor in argument 0. EBADF if the descriptor is invalid, or if
// the file is not open for reading (get_readable) or for writing (get_writable).
Result<Ref<Chan>> get_readable(const SystemCall& call) {
  Ref<Chan> chan = TRY(get_file(call));
  if ((chan->open_flags & ABI_O_ACCMODE) == ABI_O_WRONLY) return Errno::EBADF;
  return chan;
}
Result<Ref<Chan>> get_writable(const SystemCall& call) {
  Ref<Chan> chan = TRY(get_file(call));
  if ((chan->open_flags & ABI_O_ACCMODE) == ABI_O_RDONLY) return Errno::EBADF;
  return chan;
}

Result<size_t> read_into_user(Chan& chan, uint64_t to, uint64_t size, uint64_t offset) {
  if (size == 0) return size_t{0};  // an empty read never waits
  Bounce buffer;
  TRY(buffer.make(size));
  const size_t got = TRY(chan.device->read(chan, buffer.data(), buffer.size(), offset));
  TRY(copy_to_user(to, buffer.data(), got));
  return got;
}

// True if a pending signal ends a write that has written some bytes already. Any signal ends a
// write to a stream, as POSIX requires for slow devices. Only a signal that ends the process ends a
// write to a file, because programs expect that a file is written whole.
bool is_given_up(const Chan& chan) {
  return chan.device->seekable() ? process_is_ending() : current_task()->interrupted.load();
}

// Writes in parts of the buffer's size. Ends early if the device takes less than a part, or if
// is_given_up() is true. If an error occurs after the first part, returns the number of bytes that
// were written before the error. A write to a file of commands (Device::longest_command) is a
// single part.
Result<size_t> write_from_user(Process& process, Chan& chan, uint64_t from, uint64_t size,
                               uint64_t offset) {
  const size_t longest = chan.device->longest_command(chan);
  ASSERT(longest <= Device::kLargestCommand);
  if (longest > 0 && size > longest)
    return fail(Errno::EINVAL, "%lu bytes in one write, at most %zu", size, longest);
  Bounce buffer;
  TRY(buffer.make(size, longest > 0));
  size = TRY(limit_allows_write(process, chan, offset, size));
  size_t done = 0;
  do {
    const size_t part = std::min<uint64_t>(buffer.size(), size - done);
    const Result<void> copied = copy_from_user(buffer.data(), from + done, part);
    if (!copied) return done ? Result<size_t>(done) : copied.error();
    Result<size_t> put = chan.device->write(chan, buffer.data(), part, offset + done);
    if (!put) {
      if (put.error() == Errno::EPIPE) {
        const Guard guard(process_lock);
        signal_post_thread(self_thread(), ABI_SIGPIPE);
      }
      return done ? Result<size_t>(done) : put.error();
    }
    done += *put;
    if (*put < part || is_given_up(chan)) break;
  } while (done < size);
  if (chan.open_flags & ABI_O_SYNC) TRY(chan.device->sync(chan, false));
  return done;
}

// True if the device's write itself sets chan.offset to the end of the file.
bool device_moves_offset(const Chan& chan) {
  return (chan.open_flags & ABI_O_APPEND) && chan.device->one_offset();
}

Result<uint64_t> position_argument(const Chan& chan, uint64_t offset) {
  if (!chan.device->seekable()) return Errno::ESPIPE;
  if (offset > INT64_MAX) return Errno::EINVAL;
  return offset;
}

Result<int64_t> duplicate(const SystemCall& call, int lowest, bool close_on_exec) {
  return TRY(fd_install(*call.process.fds, TRY(get_file(call)), close_on_exec, lowest));
}

}  // namespace

Result<int64_t> sys_close(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_file(call));
  TRY(fd_close(*call.process.fds, call.integer(0)));
  if (chan->cached.load(std::memory_order_relaxed) &&
      (chan->open_flags & ABI_O_ACCMODE) != ABI_O_RDONLY)
    TRY(chan->device->sync_pages(*chan, 0, UINT64_MAX, SyncErrors::kTell));
  return 0;
}

Result<int64_t> sys_read(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_readable(call));
  OffsetHold hold;
  TRY(hold.take(*chan));
  const size_t got = TRY(read_into_user(*chan, call.arguments[1], call.arguments[2], chan->offset));
  chan->offset += got;
  return static_cast<int64_t>(got);
}

Result<int64_t> sys_write(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_writable(call));
  OffsetHold hold;
  TRY(hold.take(*chan));
  const size_t put =
      TRY(write_from_user(call.process, *chan, call.arguments[1], call.arguments[2], chan->offset));
  if (!device_moves_offset(*chan)) chan->offset += put;
  return static_cast<int64_t>(put);
}

Result<int64_t> sys_pread(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_readable(call));
  const uint64_t offset = TRY(position_argument(*chan, call.arguments[3]));
  return static_cast<int64_t>(
      TRY(read_into_user(*chan, call.arguments[1], call.arguments[2], offset)));
}

Result<int64_t> sys_pwrite(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_writable(call));
  const uint64_t offset = TRY(position_argument(*chan, call.arguments[3]));
  OffsetHold hold;  // the device may move chan->offset
  TRY(hold.take(*chan));
  const uint64_t before = chan->offset;
  Result<size_t> put =
      write_from_user(call.process, *chan, call.arguments[1], call.arguments[2], offset);
  if (device_moves_offset(*chan)) chan->offset = before;
  return static_cast<int64_t>(TRY(std::move(put)));
}

Result<int64_t> sys_lseek(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_file(call));
  if (!chan->device->seekable()) return Errno::ESPIPE;
  OffsetHold hold;
  TRY(hold.take(*chan));
  uint64_t base = 0;
  switch (call.integer(2)) {
    case kSeekSet:
      break;
    case kSeekCurrent:
      base = chan->offset;
      break;
    case kSeekEnd: {
      abi_stat stat;
      TRY(chan->device->stat(*chan, stat));
      base = stat.size;
      break;
    }
    default:
      return Errno::EINVAL;
  }
  int64_t to;
  if (__builtin_add_overflow(static_cast<int64_t>(base), static_cast<int64_t>(call.arguments[1]),
                             &to) ||
      to < 0) {
    return Errno::EINVAL;
  }
  chan->offset = static_cast<uint64_t>(to);
  return to;
}

Result<int64_t> sys_dup(const SystemCall& call) {
  return duplicate(call, 0, false);
}

Result<int64_t> sys_dup2(const SystemCall& call) {
  if (call.word(2) & ~static_cast<uint32_t>(ABI_O_CLOEXEC)) return Errno::EINVAL;
  return TRY(
      fd_dup2(*call.process.fds, call.integer(0), call.integer(1), call.word(2) & ABI_O_CLOEXEC));
}

Result<int64_t> sys_fcntl(const SystemCall& call) {
  FdTable& fds = *call.process.fds;
  const int fd = call.integer(0);
  switch (call.integer(1)) {
    case kDupFd:
      return duplicate(call, call.integer(2), false);
    case kDupFdCloseOnExec:
      return duplicate(call, call.integer(2), true);
    case kGetFd:
      return TRY(fd_close_on_exec(fds, fd)) ? kFdCloseOnExec : 0;
    case kSetFd:
      TRY(fd_set_close_on_exec(fds, fd, call.arguments[2] & kFdCloseOnExec));
      return 0;
    case kGetFlags:
      return TRY(get_file(call))->open_flags & (ABI_O_ACCMODE | kSettableFlags);
    case kSetFlags: {
      const Ref<Chan> chan = TRY(get_file(call));
      OffsetHold hold;
      TRY(hold.take(*chan));
      // For some devices `hold` holds nothing, and two calls may change the flags at once. That
      // does no harm: the flags outside of kSettableFlags never change, so the result is that of
      // one of the calls.
      chan->open_flags = (chan->open_flags & ~kSettableFlags) | (call.word(2) & kSettableFlags);
      return 0;
    }
    case ABI_F_GETLK:
    case ABI_F_SETLK:
    case ABI_F_SETLKW:
      return record_lock_command(call);
    default:
      return Errno::EINVAL;
  }
}

Result<int64_t> sys_pipe2(const SystemCall& call) {
  const uint32_t flags = call.word(1);
  if (flags & ~static_cast<uint32_t>(ABI_O_NONBLOCK | ABI_O_CLOEXEC)) return Errno::EINVAL;
  FdTable& fds = *call.process.fds;
  const bool close_on_exec = flags & ABI_O_CLOEXEC;
  PipeEnds ends = TRY(pipe_create());
  ends.reader->open_flags |= flags & ABI_O_NONBLOCK;
  ends.writer->open_flags |= flags & ABI_O_NONBLOCK;
  int numbers[2];
  numbers[0] = TRY(fd_install(fds, std::move(ends.reader), close_on_exec));
  Result<int> second = fd_install(fds, std::move(ends.writer), close_on_exec);
  if (!second) {
    TRY(fd_close(fds, numbers[0]));
    return second.error();
  }
  numbers[1] = *second;
  if (!put_user(call.arguments[0], numbers)) {
    TRY(fd_close(fds, numbers[0]));
    TRY(fd_close(fds, numbers[1]));
    return Errno::EFAULT;
  }
  return 0;
}

Result<int64_t> sys_fstat(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_file(call));
  abi_stat stat;
  TRY(chan->device->stat(*chan, stat));
  TRY(put_user(call.arguments[1], stat));
  return 0;
}

Result<int64_t> sys_getdents(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_readable(call));
  if (!chan->qid.directory) return Errno::ENOTDIR;
  Bounce buffer;
  TRY(buffer.make(call.arguments[2]));
  OffsetHold hold;
  TRY(hold.take(*chan));
  const uint64_t before = chan->offset;
  const size_t got = TRY(directory_read(*chan, buffer.data(), buffer.size()));
  if (Result<void> copied = copy_to_user(call.arguments[1], buffer.data(), got); !copied) {
    chan->offset = before;
    if (planted(Planted::kGetdentsFault)) static_cast<void>(Ref<Chan>(chan).release());
    return copied.error();
  }
  return static_cast<int64_t>(got);
}

Result<int64_t> sys_fsync(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_file(call));
  if (!chan->device->seekable()) return Errno::EINVAL;
  TRY(chan->device->sync(*chan, call.word(1) != 0));
  return 0;
}

Result<int64_t> sys_ftruncate(const SystemCall& call) {
  const Ref<Chan> chan = TRY(get_writable(call));
  if (call.arguments[1] > INT64_MAX) return Errno::EINVAL;
  TRY(limit_allows_size(call.process, *chan, call.arguments[1]));
  TRY(chan->device->truncate(*chan, call.arguments[1], chan->opener));
  return 0;
}
