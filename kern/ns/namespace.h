// Namespaces: path walk, bind, and the descriptor table of a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/ref.h"
#include "core/spinlock.h"
#include "lib/result.h"
#include "ns/device.h"
#include "ns/mount_impl.h"
#include "ns/path_buffer.h"

// Makes a namespace that contains only `#root`. ENOMEM. All functions of this file may sleep.
Result<Ref<Namespace>> namespace_create();

// The symbolic links that a path walk follows. kFollow: all links. kNotLast: all links except one
// at the end of the path. kNone: no links; `..` fails with ENOENT, since canonical names have
// neither.
enum class Links : uint8_t { kFollow, kNotLast, kNone };

// The context in which a path is resolved.
struct PathContext {
  Namespace* ns;
  Ref<Chan> cwd;  // a directory, open or not; empty: the root
  Credentials who;
};

// Returns a channel to the file `path`. The channel is not open, and nobody else holds it. The path
// is relative to cwd, absolute from the namespace's root, or #device/…. ENOENT, ENOTDIR, EACCES,
// ENAMETOOLONG, ELOOP (more than 40 symbolic links), ENXIO (no such device). With kNotLast, follows
// a symbolic link at the end of the path only if a slash comes after it.
Result<Ref<Chan>> path_walk(const PathContext& context, std::string_view path,
                            Links links = Links::kFollow);
// Opens a file. ABI_O_CREAT: makes the file if it does not exist. ABI_O_TRUNC: truncates it. EEXIST
// with ABI_O_EXCL if the file exists; ELOOP with ABI_O_NOFOLLOW if the file is a symbolic link.
Result<Ref<Chan>> path_open(const PathContext& context, std::string_view path, uint32_t flags,
                            uint32_t mode);
// Makes a directory, FIFO or file. `mode` gives the type and the permissions. EEXIST.
Result<void> path_make(const PathContext& context, std::string_view path, uint32_t mode);
// Makes a symbolic link to `target`, which need not exist. EEXIST.
Result<void> path_symlink(const PathContext& context, std::string_view target,
                          std::string_view path);
// Makes `to` another name for the file `from`. EPERM for a directory; EXDEV if the names are on
// different devices; EEXIST.
Result<void> path_link(const PathContext& from_context, std::string_view from,
                       const PathContext& context, std::string_view to, Links links);
// Removes `path`. If `directory` is true, works as rmdir does (ENOTDIR, ENOTEMPTY), otherwise as
// unlink does (EISDIR).
Result<void> path_remove(const PathContext& context, std::string_view path, bool directory);
Result<void> path_rename(const PathContext& from_context, std::string_view from,
                         const PathContext& context, std::string_view to);
Result<void> path_truncate(const PathContext& context, std::string_view path, uint64_t size);
Result<void> path_bind(const PathContext& context, std::string_view source, std::string_view target,
                       uint32_t flags);
Result<void> path_unmount(const PathContext& context, std::string_view target);

// Copies the channel's name to `name`, without a NUL, and returns the name's length; 0 if the
// channel has no name. Sets `named_at` to Chan::named_at: the number of directory renames at the
// time when the name was known to be valid. Any task may call this; the channel may be shared.
size_t chan_copy_path(const Chan& chan, char (&name)[kMaxPath], uint64_t& named_at);
// Updates `name`, a name of `chan`, if it does not lead to `chan` any more. `name` has `length`
// bytes, at most kMaxPath, and no NUL. It led to `chan` when directory_renames() was `named_at`.
//
// The name stays as it is if it still leads to `chan`, or if the device's names never change.
// Otherwise the new name is the path of the device's root and, after it, the names from this root
// down to `chan`. ENOENT if `chan` has been removed or has no known name; ENAMETOOLONG; EINTR if
// the process is ending. On an error `name` is unchanged.
Result<void> present_name(Namespace& ns, Chan& chan, uint64_t named_at, char* name, size_t& length);
// Does what present_name() does, for the channel's own name (Chan::path). Stores the present name
// with a NUL in `name` and returns its length without the NUL. ENOENT also if the channel has no
// name.
Result<size_t> chan_present_name(Namespace& ns, Chan& chan, char (&name)[kMaxPath]);
// The number of directory renames since boot.
uint64_t directory_renames();

// Marks the file of `chan` as written or executed (`use`) until `chan` is freed. A file cannot be
// written while it is executed, or executed while it is written: ETXTBSY. Has no effect if
// Device::one_offset() is false for the device, because the device's files are then never
// executable. Nobody except the caller may hold `chan`, unless `use` is kExecuted: a channel that
// others hold may get this use, once or several times. ENOMEM. May sleep.
Result<void> file_use_begin(Chan& chan, FileUse use);
// The memory that file_use_begin may need, for callers that allocate it in advance.
class FileUseReserve {
 public:
  FileUseReserve() = default;
  FileUseReserve(const FileUseReserve&) = delete;
  FileUseReserve& operator=(const FileUseReserve&) = delete;
  ~FileUseReserve();
  // Allocates the memory. ENOMEM. May sleep.
  Result<void> fill();

 private:
  friend Result<void> file_use_begin(Chan& chan, FileUse use, FileUseReserve& reserve);
  UsedFile* file_ = nullptr;
};
// Does what file_use_begin(chan, use) does, but uses the memory of a filled reserve. Fails only
// with ETXTBSY.
Result<void> file_use_begin(Chan& chan, FileUse use, FileUseReserve& reserve);

// Reads the next entries (abi_dirent) of an open directory; the members of a union are merged.
// EINVAL if the buffer is too small for one entry; EINTR if the process is ending before an entry
// was read.
Result<size_t> directory_read(Chan& directory, char* buffer, size_t size);

// Holds the offset of an open file for one call, so that two writes do not use the same offset.
// Until the hold ends, take() for the same open file waits. The flag O_APPEND does not change
// during the hold. The hold has no effect if Device::one_offset() is false for the device.
class OffsetHold {
 public:
  OffsetHold() = default;
  OffsetHold(const OffsetHold&) = delete;
  OffsetHold& operator=(const OffsetHold&) = delete;
  ~OffsetHold();
  // Takes the hold. Called at most once. May sleep; EINTR if the process is ending. The caller
  // keeps a reference to the channel until the hold ends.
  Result<void> take(Chan& chan);

 private:
  Chan* chan_ = nullptr;
};

// The descriptors of a process.
class FdTable;
Result<FdTable*> fd_table_create();
// Makes a table with the same open files, for fork.
Result<FdTable*> fd_table_copy(FdTable& table);
// Closes all descriptors and frees the table.
void fd_table_destroy(FdTable* table);
inline constexpr int kMaxFds = 256;
// Installs the channel at the lowest free descriptor >= `lowest`. EMFILE, ENOMEM.
Result<int> fd_install(FdTable& table, Ref<Chan> chan, bool close_on_exec, int lowest = 0);
// Returns the open file of a descriptor. EBADF.
Result<Ref<Chan>> fd_get(FdTable& table, int fd);
// True if the descriptor is open and refers to `chan`.
bool fd_is(FdTable& table, int fd, const Chan& chan);
Result<void> fd_close(FdTable& table, int fd);
Result<int> fd_dup2(FdTable& table, int from, int to, bool close_on_exec);
Result<bool> fd_close_on_exec(FdTable& table, int fd);
Result<void> fd_set_close_on_exec(FdTable& table, int fd, bool on);
void fd_close_for_exec(FdTable& table);
// Puts the file at each of the descriptors 0 to 2 that is closed. The table's limit does not
// matter.
void fd_fill_standard(FdTable& table, const Ref<Chan>& chan);
// Called before the table's process requests a record lock. From then on, closing a descriptor also
// removes the record locks that the process has on the descriptor's file. The table is the owner of
// these locks.
void fd_may_have_locks(FdTable& table);
// From now on new descriptors are below `limit`. Open descriptors at or above the limit stay open.
void fd_set_limit(FdTable& table, int limit);

// Makes memory of `size` bytes for shared maps, and returns it as an open file of #tmp without a
// name. ENOMEM, ENOSPC.
Result<Ref<Chan>> shared_memory_create(uint64_t size);

// Two ends of a pipe (#pipe), for the pipe system call.
struct PipeEnds {
  Ref<Chan> reader, writer;
};
Result<PipeEnds> pipe_create();
// Opens the FIFO `file`, a channel that is not open yet. An open for reading waits for a writer, an
// open for writing waits for a reader, and an open for both does not wait. With ABI_O_NONBLOCK no
// open waits, and an open for writing fails with ENXIO if there is no reader. EINTR, EACCES,
// ENOMEM.
Result<Ref<Chan>> fifo_open(Ref<Chan> file, uint32_t flags, const Credentials& who);

// Sets up namespaces and channels. Called once, at boot, when the scheduler runs.
void ns_init();
