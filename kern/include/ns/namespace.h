// Namespaces: which channel stands where. Path walk, bind, the descriptor table of a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/ref.h"
#include "core/spinlock.h"
#include "lib/result.h"
#include "ns/device.h"
#include "ns/mount.h"

// A namespace with nothing but `#root` in it. ENOMEM. May sleep, as all that is here.
Result<Ref<Namespace>> namespace_create();

// Which symbolic links a walk follows: all, all but one at the end of the path, or none.
enum class Links : uint8_t { kFollow, kNotLast, kNone };

// What a path is resolved against.
struct PathContext {
  Namespace* ns;
  Ref<Chan> cwd;  // a directory, open or not; empty: the root
  Credentials who;
};

inline constexpr size_t kMaxPath = 1024;
inline constexpr size_t kMaxName = 255;

// The channel that `path` names, not open, held by nobody else. Relative to cwd, absolute from the
// namespace's root, or #device/…. ENOENT, ENOTDIR, EACCES, ENAMETOOLONG, ELOOP (more than 40
// symbolic links), ENXIO (no such device).
// With kNotLast a symbolic link at the end of the path is not followed, unless a slash is after it.
Result<Ref<Chan>> path_walk(const PathContext& context, std::string_view path,
                            Links links = Links::kFollow);
// Opens, and with ABI_O_CREAT creates. EEXIST with ABI_O_EXCL; ELOOP with ABI_O_NOFOLLOW for a
// symbolic link; ABI_O_TRUNC truncates.
Result<Ref<Chan>> path_open(const PathContext& context, std::string_view path, uint32_t flags,
                            uint32_t mode);
// Makes the directory, FIFO or file that `mode` says, with its permissions. EEXIST.
Result<void> path_make(const PathContext& context, std::string_view path, uint32_t mode);
// A symbolic link to `target`, which need not be there. EEXIST.
Result<void> path_symlink(const PathContext& context, std::string_view target,
                          std::string_view path);
// One more name for the file `from`. EPERM for a directory; EXDEV; EEXIST.
Result<void> path_link(const PathContext& from_context, std::string_view from,
                       const PathContext& context, std::string_view to, Links links);
// `directory`: rmdir (ENOTDIR, ENOTEMPTY), else unlink (EISDIR).
Result<void> path_remove(const PathContext& context, std::string_view path, bool directory);
Result<void> path_rename(const PathContext& from_context, std::string_view from,
                         const PathContext& context, std::string_view to);
Result<void> path_truncate(const PathContext& context, std::string_view path, uint64_t size);
Result<void> path_bind(const PathContext& context, std::string_view source, std::string_view target,
                       uint32_t flags);
Result<void> path_unmount(const PathContext& context, std::string_view target);

// Changes `name` (its `length` of at most kMaxPath bytes; without a NUL), by which `chan` was
// reached when `named_at` directories had been renamed, to one by which it can be reached now. The
// same name if it still leads there or if the device's names never change; else by the device's
// root. ENOENT if there is none, as of what has been removed, or none is known; ENAMETOOLONG; EINTR
// if the process is to end; `name` is then as it was.
Result<void> present_name(Namespace& ns, Chan& chan, uint64_t named_at, char* name, size_t& length);
// The same of the channel's own name, which may be asked for later than the channel was made. With
// a NUL; its length without. ENOENT too if it has none.
Result<size_t> chan_present_name(Namespace& ns, Chan& chan, char (&name)[kMaxPath]);
// How many directories have been renamed since boot.
uint64_t directory_renames();

// From now on until `chan` goes its file is `use`d by it: a file is not written to while it is
// executed, nor the other way round. ETXTBSY, ENOMEM. `chan` is held by nobody else. May sleep.
Result<void> file_use_begin(Chan& chan, FileUse use);
// The memory that it may need, for who must have it before something else is done.
class FileUseReserve {
 public:
  FileUseReserve() = default;
  FileUseReserve(const FileUseReserve&) = delete;
  FileUseReserve& operator=(const FileUseReserve&) = delete;
  ~FileUseReserve();
  // ENOMEM. May sleep.
  Result<void> fill();

 private:
  friend Result<void> file_use_begin(Chan& chan, FileUse use, FileUseReserve& reserve);
  UsedFile* file_ = nullptr;
};
// The same; with a reserve that is full ETXTBSY only.
Result<void> file_use_begin(Chan& chan, FileUse use, FileUseReserve& reserve);

// The next bytes of directory entries (abi_dirent) of an open directory, unions merged. EINVAL if
// not one fits; EINTR if the process is to end before there is one.
Result<size_t> directory_read(Chan& directory, char* buffer, size_t size);

// Holds the offset of an open file for one call, if its device has one_offset: whoever shares the
// file waits, so that two writes do not go to the same place. O_APPEND does not change meanwhile.
class OffsetHold {
 public:
  OffsetHold() = default;
  OffsetHold(const OffsetHold&) = delete;
  OffsetHold& operator=(const OffsetHold&) = delete;
  ~OffsetHold();
  // Once. May sleep; EINTR if the process is to end. The holder keeps a reference to the channel
  // for longer than the hold.
  Result<void> take(Chan& chan);

 private:
  Chan* chan_ = nullptr;
};

// The descriptors of a process.
class FdTable;
Result<FdTable*> fd_table_create();
// For fork: the same open files.
Result<FdTable*> fd_table_copy(FdTable& table);
// Closes everything.
void fd_table_destroy(FdTable* table);
inline constexpr int kMaxFds = 256;
// The lowest free descriptor >= `lowest` gets the channel. EMFILE, ENOMEM.
Result<int> fd_install(FdTable& table, Ref<Chan> chan, bool close_on_exec, int lowest = 0);
// EBADF.
Result<Ref<Chan>> fd_get(FdTable& table, int fd);
Result<void> fd_close(FdTable& table, int fd);
Result<int> fd_dup2(FdTable& table, int from, int to, bool close_on_exec);
Result<bool> fd_close_on_exec(FdTable& table, int fd);
Result<void> fd_set_close_on_exec(FdTable& table, int fd, bool on);
void fd_close_for_exec(FdTable& table);
// The process, whose record locks have the table as owner, is about to ask for one: from now on a
// descriptor that is closed takes those on its file away.
void fd_may_have_locks(FdTable& table);
// Descriptors are installed below `limit` from now on; those above it stay.
void fd_set_limit(FdTable& table, int limit);

// Memory of `size` bytes that maps can share: an open file of #tmp, without a name. ENOMEM, ENOSPC.
Result<Ref<Chan>> shared_memory_create(uint64_t size);

// Two ends of a pipe (#pipe), for the pipe system call.
struct PipeEnds {
  Ref<Chan> reader, writer;
};
Result<PipeEnds> pipe_create();
// Opens the FIFO `file`, which is not open, and waits until somebody has it open for the other
// direction; with ABI_O_NONBLOCK it does not wait, and ENXIO if there is nobody to read. EINTR,
// EACCES, ENOMEM.
Result<Ref<Chan>> fifo_open(Ref<Chan> file, uint32_t flags, const Credentials& who);

// Namespaces and channels. Once, at boot, after the scheduler runs.
void ns_init();
