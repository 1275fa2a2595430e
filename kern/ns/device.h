// Devices and channels, after Plan 9: everything that has a name is a file of a device, and a
// channel refers to such a file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "abi/syscall.h"
#include "core/ref.h"
#include "lib/list.h"
#include "lib/optimizer.h"
#include "lib/result.h"
#include "lib/units.h"
#include "lib/words.h"
#include "proc/user_account.h"

class Device;
class PollWaiter;
struct Process;
struct CachedFile;
struct UsedFile;

// Identifies a file of a device: two channels with equal device and qid path refer to the same
// file.
struct Qid {
  uint64_t path = 0;
  uint32_t version = 0;
  bool directory = false, symlink = false, fifo = false;
  bool operator==(const Qid& other) const { return path == other.path; }
};

// The user and groups of a process, for permission checks. uid 0 may do everything.
struct Credentials {
  uint32_t uid = 0, gid = 0;                  // the effective ids
  uint32_t real_uid = uid, real_gid = gid;    // ids of the user who started the process
  uint32_t saved_uid = uid, saved_gid = gid;  // the process may make these its effective ids
  uint32_t group_count = 0;
  uint32_t groups[ABI_GROUPS_MAX] = {};  // the supplementary groups

  bool is_in(uint32_t group) const;
  // Returns a copy whose effective ids are the real ids, for access().
  Credentials real() const;
};

// Two uses of a file that exclude each other: while a file has one of these uses, the other use
// fails with ETXTBSY (file_use_begin).
enum class FileUse : uint8_t {
  kWritten,   // open for writing, or being truncated
  kExecuted,  // a program that is being loaded or is running
};

// A channel refers to a file or directory in a device's tree. Device::open makes the channel an
// open file.
class Chan : public RefCounted<Chan> {
 public:
  static constexpr RefKind kRefKind = RefKind::kChan;
  Device* device = nullptr;
  Qid qid;
  // The ABI_O_* flags of the open. F_SETFL can change some flags, but not O_APPEND while a call
  // holds the offset (OffsetHold).
  std::atomic<uint32_t> open_flags{0};
  bool is_open = false;
  // The credentials of the process that opened the file. The device checks later reads and writes
  // against these, not against the credentials of the process that reads or writes. Before open: a
  // user and a group that own no file.
  Credentials opener{.uid = UINT32_MAX, .gid = UINT32_MAX};
  uint64_t offset = 0;  // position of the next read or write without an offset; see OffsetHold
  std::atomic<uint8_t> offset_hold{0};  // used by OffsetHold (namespace.h)
  void* state = nullptr;     // the device's data for this channel; Device::close releases it
  uint64_t kept_number = 0;  // HeldRef::number of the reference that keep() stored
  char* path = nullptr;      // the canonical path that led here, updated after renames.
                             // For getcwd, `..` and messages. From kmalloc; may be nullptr
  // The value of directory_renames() at a time when `path` was valid.
  std::atomic<uint64_t> named_at{0};

  // Set if this file is mounted on another file: device and qid path of that other file. The
  // namespace uses these two fields to find the other members of the union (mount_impl.h).
  Device* mount_device = nullptr;
  uint64_t mount_path = 0;
  Ref<Chan> union_next;  // in an open directory of a union: the next member, also open

  UsedFile* used_file = nullptr;  // counts the uses of the file; set by file_use_begin
  bool may_have_lock = false;     // the open file may have a flock; set by open_file_lock_set
  std::atomic<CachedFile*> cached{nullptr};  // set once, by the page cache
  std::atomic<bool> writes_pages{
      false};     // a shared map may write with this channel; set by the page cache
  Charge charge;  // of an open file

  // ENOMEM. create, clone and destroy may sleep.
  static Result<Ref<Chan>> create(Device* device, Qid qid);
  // Makes another channel to the same file of the same device. The new channel is not open and has
  // no path. A channel that is open can be cloned only if it refers to a directory.
  Result<Ref<Chan>> clone();
  static void destroy(Chan* chan);

  // Stores a reference in `state`, for a device whose files are reference-counted objects.
  // take_kept() takes the reference out again.
  template <typename T>
  void keep(Ref<T> ref) {
    const HeldRef<T> held = ref.release();
    state = held.object;
    kept_number = held.number;
  }
  template <typename T>
  Ref<T> take_kept() {
    return Ref<T>::adopt({static_cast<T*>(std::exchange(state, nullptr)), kept_number});
  }
};

// A change of a file's attributes; attributes without a value stay as they are.
struct AttributeChange {
  struct Time {
    bool now;         // true: the present time
    abi_timespec at;  // the time if `now` is false
  };
  std::optional<uint32_t> mode;  // permissions
  std::optional<uint32_t> uid, gid;
  std::optional<Time> accessed, modified;
};

// Checks that `who` may make the change to a file whose attributes are `now`. Root may make every
// change. The owner may set mode and times, and may change the group to one of the owner's groups.
// A user with write permission may set the times to the present. EPERM, EACCES.
//
// Also adjusts change.mode:
// - A change of owner or group that sets no mode clears the set-user-id and set-group-id bits,
//   except on directories. This holds for root, too.
// - A mode set by a user other than root who is not in the file's group loses set-group-id.
Result<void> check_attributes(const abi_stat& now, AttributeChange& change, const Credentials& who);
// True if `who` has all rights in `want` (4 read, 2 write, 1 execute or search) to a file with this
// mode, owner and group.
bool permitted(uint32_t mode, uint32_t uid, uint32_t gid, const Credentials& who, uint32_t want);
// wanted_by_open() returns the rights that an open with ABI_O_* `flags` needs, as `want` for
// permitted(). Only the kernel itself uses the flag kOpenToExecute, to open a file that it will
// run. The opener then needs only the right to execute.
inline constexpr uint32_t kOpenToExecute = 1u << 31;
uint32_t wanted_by_open(uint32_t flags);

// A directory entry, existing or to be made: `name` in `directory`. In a union, `directory` is the
// member that has the entry.
struct DirectoryEntry {
  Chan& directory;
  std::string_view name;
};

// A page of a file for an address space. Page::mappings already counts one mapping for the caller.
// The caller either puts the page into page tables or calls page_unmapped().
struct FilePage {
  PhysAddr physical;
  // Counts changes of the file, each of which may have replaced or removed pages. The counter lives
  // as long as the channel that was given to Device::page.
  const std::atomic<uint64_t>* changes;
  uint64_t change;  // value of `changes` when the page was looked up
};

// Tells sync_pages() how to treat errors. EINTR and ETIMEDOUT are returned at once. Any other error
// of a write-back is stored with the file. kTell returns the stored error, of this write-back or of
// an earlier one, and clears the error. kKeep leaves the error for the next call with kTell.
enum class SyncErrors : uint8_t { kTell, kKeep };

// A device of the kernel, reached as #NAME. All functions may sleep, and are called with no lock
// held. A comment says "open file" if `chan` must be open, "open or not" if it may be; otherwise
// `chan` is not open. A device overrides only the functions that it supports. In the comments, "by
// default" describes a function that the device does not override.
class Device {
 public:
  constexpr Device(const char* name) : name_(name) {}
  const char* name() const { return name_; }

  // Returns a channel to the root of the device. `spec` is the text after the dot in #name.spec,
  // usually empty.
  virtual Result<Ref<Chan>> attach(std::string_view spec);
  // Returns a new channel to the entry `name` of the directory `chan`, which may be open. `name` is
  // never "." or "..": the path walk resolves these by name. The caller has checked search
  // permission. ENOENT, ENOTDIR.
  virtual Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) = 0;
  // Open or not. Implementations first call fill_stat().
  virtual Result<void> stat(Chan& chan, abi_stat& stat) = 0;
  // Checks permission and makes `chan` an open file (sets is_open and open_flags). Nobody except
  // the caller may hold the channel. May return another channel instead: opening #probe/clone, for
  // example, makes a session and returns the session's open ctl file. A failed open leaves the
  // channel unchanged. EACCES, EISDIR.
  virtual Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) = 0;
  // Makes a file or directory, as mode & ABI_S_IFMT says, with the name `name` in `directory`, and
  // opens it. A FIFO is made but not opened. Before create, remove and rename the caller has
  // checked the permission to write to the directory. Some devices check this permission again,
  // atomically with the change. EEXIST if the name exists. EPERM by default.
  virtual Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags,
                                   uint32_t mode, const Credentials& who);
  // Open file. Reads from `offset` and returns the number of bytes; 0 at the end. `buffer` is
  // kernel memory. EISDIR for directories.
  virtual Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // Open file. Writes at `offset`. Exception: if chan.open_flags has ABI_O_APPEND and the file has
  // an end, writes at the end and ignores `offset`. In this case a device for which one_offset()
  // is true sets chan.offset to the end of the written bytes.
  virtual Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) = 0;
  // The size in bytes of the longest command that may be written to the open file `chan`, at most
  // kLargestCommand. A longer write fails with EINVAL; any other write reaches write() whole, in
  // one call. By default 0: the file takes no commands, and a program's write may reach write() in
  // several calls.
  static constexpr size_t kLargestCommand = size_t{64} << 10;
  virtual size_t longest_command(const Chan& chan) const;
  // Open directory: stores the first entry at or after `position` in `entry` and `name`
  // (NUL-terminated, 256 bytes) and advances `position` to the next entry. Position 0 is the
  // beginning; the device chooses the other positions, below 2^48. An entry that stays is seen
  // exactly once even if other entries come and go. ENOENT after the last entry. The caller adds
  // "." and "..".
  virtual Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name);
  // Called when the last reference to a channel, open or not, is gone: releases chan.state. Cannot
  // fail.
  virtual void close(Chan& chan);
  // Called when Chan::clone makes `copy` from `chan`: sets copy.state. By default copies the
  // pointer.
  virtual Result<void> clone_state(Chan& chan, Chan& copy);
  // remove() removes the file `chan`, which the walk has found at `from`. rename() moves this file
  // to `to`. ENOENT if the file is not at `from` any more. EPERM by default.
  virtual Result<void> remove(Chan& chan, const DirectoryEntry& from, const Credentials& who);
  virtual Result<void> rename(Chan& chan, const DirectoryEntry& from, const DirectoryEntry& to,
                              const Credentials& who);
  // Makes a symbolic link `name` in `directory`; `target` is shorter than kMaxPath. EEXIST. EPERM
  // by default.
  virtual Result<void> symlink(Chan& directory, std::string_view name, std::string_view target,
                               const Credentials& who);
  // Copies the target of the symbolic link `chan` to `target` (kMaxPath bytes) without a NUL.
  // Returns the target's length, which is below kMaxPath. EINVAL by default.
  virtual Result<size_t> readlink(Chan& chan, char* target);
  // Makes another name for the file `chan`, which is no directory. EEXIST. EPERM by default.
  virtual Result<void> link(Chan& chan, const DirectoryEntry& to, const Credentials& who);
  virtual Result<void> truncate(Chan& chan, uint64_t size,
                                const Credentials& who);  // EINVAL by default
  // Open or not. check_attributes defines the permissions. EPERM by default.
  virtual Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                                      const Credentials& who);
  // Open file: makes written data as durable as the device can. `data_only`: the file's times need
  // not become durable. Does nothing by default: data is durable when write returns.
  virtual Result<void> sync(Chan& chan, bool data_only);
  // Open file: prepares the file for mapping. `writes` is true for a shared map that may write to
  // the file. ENODEV by default, because the device's files cannot be mapped. ENOMEM, and the
  // device's own errors.
  virtual Result<void> map(Chan& chan, bool writes);
  // Returns page `index` of a file that was prepared for mapping. If the file has a hole there, the
  // device makes the page. ENXIO if the file ends before the page; ENOSPC also if the page has
  // kMostMappings; ENOMEM, EIO, EINTR.
  virtual Result<FilePage> page(Chan& chan, uint64_t index);
  // A program has stored into a page of the open file `chan` through a shared map. Called for the
  // first store to a page after the page was mapped, or after it was protected again: by msync, or
  // by AddressSpace::unmap_file. Does nothing by default, for a device whose files change when
  // their pages are written back.
  virtual void stored(Chan& chan);
  // Writes to the device what programs have changed through shared maps, in the range of `size`
  // bytes from `offset` on. On the device this has the effect of write(). Does nothing by default.
  virtual Result<void> sync_pages(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors);
  // Used and free space of the device. By default reports 0 blocks.
  virtual Result<void> statfs(Chan& chan, abi_statfs& result);
  virtual Result<void> ioctl(
      Chan& chan, uint32_t request,
      void* argument);  // ENOTTY by default; `argument` is kernel memory of the request's type
  // Returns the directory that `chan` is in now, and stores the name of `chan` there in `name` (256
  // bytes). Returns an empty reference for the device's root. ENOENT if `chan` has been removed or
  // the device cannot find the directory. ENOTSUP by default, for devices whose names never change.
  virtual Result<Ref<Chan>> parent(Chan& chan, char* name);
  // Returns ABI_POLLIN if a read would not block and ABI_POLLOUT if a write would not block, with
  // ABI_POLLERR and ABI_POLLHUP where these hold. By default ABI_POLLIN | ABI_POLLOUT. `waiter` may
  // be nullptr and does not outlive the channel.
  //
  // If the answer can change, a device first calls waiter->wait_on() for each queue that the device
  // wakes after a change, and then determines the answer. A device that does not learn of changes
  // calls waiter->look_again() instead.
  virtual uint16_t poll(Chan& chan, PollWaiter* waiter);
  // True if reads have an offset; false for streams (lseek gives ESPIPE).
  virtual bool seekable() const { return true; }

  // True if open() returns an existing open file, which may have other users, as dup does. `chan`
  // is not open.
  virtual bool opens_existing(const Chan&) const { return false; }

  // True if the kernel honours the set-user-id and set-group-id bits of the device's files.
  virtual bool grants_rights() const { return true; }

  // True if calls that use chan.offset exclude each other (OffsetHold). A device may return true
  // only if none of these calls waits for another process.
  virtual bool one_offset() const { return false; }

  // The device's number, as in abi_stat.dev. It never changes.
  uint32_t id() const { return id_; }

 protected:
  // Zeroes `stat`, so that root is the owner; then sets dev, ino, mode, size, one link, and the
  // block size.
  void fill_stat(abi_stat& stat, uint64_t path, uint32_t mode, uint64_t size = 0) const;

 private:
  friend void device_register(Device* device);
  const char* name_;
  uint32_t id_ = 0;
  Device* next_ = nullptr;
  friend Device* device_find(std::string_view name);
};

// Called at boot by each device's init function; the device must live for ever.
void device_register(Device* device);
Device* device_find(std::string_view name);

// One file or directory of a TableDevice.
struct TableEntry {
  const char* name;
  uint32_t mode;    // ABI_S_IFDIR or ABI_S_IFREG or ABI_S_IFCHR, and permissions; the owner is root
  uint32_t parent;  // index in the table; entry 0 is the root and its own parent
};

// A device whose tree is a fixed table. Its directories may also contain nodes: files and
// directories that come and go. This class implements attach, walk, stat, entry, and open with the
// check of permissions. Directories cannot be read or written. The device implements read_file and
// write_file for open files, and distinguishes the files by chan.qid.path, which is the index in
// the table:
//
//   constexpr TableEntry kTable[] = {{"", ABI_S_IFDIR | 0555, 0},
//                                    {"free", ABI_S_IFREG | 0444, 0},
//                                    {"trace", ABI_S_IFDIR | 0500, 0}};
//
// A device with nodes overrides the dynamic_* functions. The nodes' qid paths are kDynamic and
// above; the device defines the meaning of these numbers. dynamic_walk may store a reference in
// the chan.state of a node's channel. The device then overrides clone_state and close. These two
// functions test chan.is_open to see whether chan.state belongs to an open file, or to a node that
// is not open.
class TableDevice : public Device {
 public:
  constexpr TableDevice(const char* name, std::span<const TableEntry> table)
      : Device(name), table_(table) {}

  Result<Ref<Chan>> attach(std::string_view spec) override;
  Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) override;
  Result<void> stat(Chan& chan, abi_stat& stat) override;
  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override;
  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) final;
  Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) final;
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override;
  Result<void> ioctl(Chan& chan, uint32_t request, void* argument) final;
  uint16_t poll(Chan& chan, PollWaiter* waiter) final;

 protected:
  static constexpr uint64_t kDynamic = uint64_t{1} << 32;
  static bool is_dynamic(const Chan& chan) { return chan.qid.path >= kDynamic; }

  // Called when `chan`, which is no directory, is being opened and permission has been granted.
  // Makes chan.state, which close releases. Does nothing by default.
  virtual Result<void> open_file(Chan& chan, uint32_t flags);
  // Each of these four functions implements Device's function of the same name without _file.
  // `chan` is an open file. Several processes may have the file open and call the functions at
  // once. So data in chan.state that several calls use is made by open_file and then only read, or
  // is guarded by a lock.
  virtual Result<size_t> read_file(Chan& chan, char* buffer, size_t size,
                                   uint64_t offset);  // EACCES by default
  virtual Result<size_t> write_file(Chan& chan, const char* buffer, size_t size,
                                    uint64_t offset);  // EACCES by default
  virtual Result<void> ioctl_file(Chan& chan, uint32_t request,
                                  void* argument);  // ENOTTY by default
  virtual uint16_t poll_file(Chan& chan,
                             PollWaiter* waiter);  // ABI_POLLIN | ABI_POLLOUT by default
  // Looks up a node: called if the table does not have `name` in `directory`. Sets chan.qid and
  // optionally chan.state. ENOENT by default.
  virtual Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan);
  // Implements stat for a node; implementations first call fill_stat(). ENOENT by default.
  virtual Result<void> dynamic_stat(Chan& chan, abi_stat& stat);
  // Stores node number `index`, from 0 on, of `directory` in `entry` and `name` (256 bytes). A
  // listing has the table's entries first, then the nodes. ENOENT after the last node, and by
  // default.
  virtual Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry, char* name);

 private:
  const std::span<const TableEntry> table_;
};

// A growing text: the content of a file that is generated at open. print and append return no
// error: if memory runs out, the text ends there, and failed() is true.
class Text {
 public:
  static Result<Text*> create();  // ENOMEM
  static void destroy(Text* text);
  // Makes a text whose content print(text) prints, which returns nothing or Result<void>. ENOMEM,
  // and the errors of `print`.
  template <typename Print>
  static Result<Text*> make(Print print);
  void print(const char* pattern, ...) __attribute__((format(printf, 2, 3)));
  void append(std::string_view bytes);
  bool failed() const { return failed_; }
  // Empties the text and keeps its memory.
  void clear() { size_ = 0; }
  size_t capacity() const { return capacity_; }
  std::string_view view() const { return {data_, size_}; }
  // Copies at most `size` bytes from `offset` on, and returns their number; 0 at the end.
  size_t read(char* buffer, size_t size, uint64_t offset) const;

 private:
  bool reserve(size_t more);  // makes room for `more` bytes after the first size_

  Charge charge_;
  char* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  bool failed_ = false;
};

template <typename Print>
Result<Text*> Text::make(Print print) {
  Text* const text = TRY(create());
  Result<void> printed;
  if constexpr (std::is_void_v<decltype(print(*text))>)
    print(*text);
  else
    printed = print(*text);
  if (printed && text->failed()) printed = Errno::ENOMEM;
  if (printed) return text;
  destroy(text);
  return printed.error();
}

// Copies at most `size` bytes of `text` from `offset` on, and returns their number; 0 at the end.
size_t read_text(std::string_view text, char* buffer, size_t size, uint64_t offset);

// One command line of a control file: the first word, and the rest without surrounding blanks.
struct CommandLine {
  std::string_view word, rest;
};
// Removes the next line that is not blank from `text`; false at the end.
bool next_command(std::string_view& text, CommandLine& line);
// Checks a text written to a control file: EINVAL unless it is plain text of at most
// kMaxCommandText bytes. `expected` is the valid form, for the error string.
inline constexpr size_t kMaxCommandText = 4096;
Result<void> check_command_text(std::string_view text, const char* expected);
// True if the bytes are printable ASCII characters, blanks and ends of lines.
bool is_command_text(std::string_view text);
