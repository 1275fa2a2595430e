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
  // A copy with the real user and group as the effective ones, for access().
  Credentials real() const;
};

// Two uses of an open file that exclude each other (file_use_begin).
enum class FileUse : uint8_t {
  kWritten,   // open for writing, or being truncated
  kExecuted,  // a program that is loaded or runs
};

// A file or directory in a device's tree; after Device::open an open file.
class Chan : public RefCounted<Chan> {
 public:
  static constexpr RefKind kRefKind = RefKind::kChan;
  Device* device = nullptr;
  Qid qid;
  // ABI_O_* after open. F_SETFL changes some flags, but not O_APPEND while the offset is held.
  std::atomic<uint32_t> open_flags{0};
  bool is_open = false;
  // The rights of the process that opened the file. The device uses these in later reads and
  // writes, not the rights of the process that reads or writes. Before open: the rights of nobody.
  Credentials opener{.uid = UINT32_MAX, .gid = UINT32_MAX};
  uint64_t offset = 0;  // position of reads, writes and seeks that give none; see OffsetHold
  std::atomic<uint8_t> offset_hold{0};  // used by OffsetHold (namespace.h)
  void* state = nullptr;  // the device's state of an open file or node; Device::close releases it
  uint64_t kept_number = 0;  // number of the reference that keep() stored
  char* path = nullptr;      // the canonical name that led here, updated after renames, for
                             // getcwd, `..` and messages; kmalloc'ed, may be nullptr
  std::atomic<uint64_t> named_at{0};  // value of directory_renames() when `path` led here

  // For the namespace, which finds the union again by these two fields: device and qid path of the
  // file on which this file was mounted.
  Device* mount_device = nullptr;
  uint64_t mount_path = 0;
  Ref<Chan> union_next;  // an open directory of a union: the next member, open too

  UsedFile* used_file = nullptr;  // the use that file_use_begin has marked
  bool may_have_lock = false;     // the open file may have a flock; set by open_file_lock_set
  std::atomic<CachedFile*> cached{nullptr};  // set once, by the page cache
  std::atomic<bool> writes_pages{
      false};  // a shared map may write through this channel (page cache)

  // ENOMEM. create, clone and destroy may sleep.
  static Result<Ref<Chan>> create(Device* device, Qid qid);
  // Another channel to the same file of the same device, not open and without a name. This channel
  // is not open, or is a directory.
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
// A user with write permission may set the times to the present. Adjusts `change` to the resulting
// attributes: setting an owner clears the set-user-id and set-group-id bits; a mode set by a user
// who is not in the file's group loses set-group-id. EPERM, EACCES.
Result<void> check_attributes(const abi_stat& now, AttributeChange& change, const Credentials& who);
// True if `who` has all of the rights `want` (4 read, 2 write, 1 execute or search) to a file with
// these permissions.
bool permitted(uint32_t mode, uint32_t uid, uint32_t gid, const Credentials& who, uint32_t want);
// The rights that an open with ABI_O_* `flags` needs. kOpenToExecute is kernel-internal: the kernel
// reads the file to run it, and the opener needs only the right to execute.
inline constexpr uint32_t kOpenToExecute = 1u << 31;
uint32_t wanted_by_open(uint32_t flags);

// A directory entry, existing or to be made: `name` in `directory`. In a union, `directory` is the
// member that has the entry.
struct DirectoryEntry {
  Chan& directory;
  std::string_view name;
};

// A page of a file for an address space. Page::mappings counts one mapping for the caller, who puts
// the page into page tables or gives the mapping back (page_unmapped).
struct FilePage {
  PhysAddr physical;
  // Counts the changes of the file that may have replaced or removed a page. The counter lives as
  // long as the channel.
  const std::atomic<uint64_t>* changes;
  uint64_t change;  // value of `changes` when the page was looked up
};

// Tells sync_pages() how to handle the errors of its own write-back and of earlier ones: kTell
// returns an error, once; kKeep keeps errors for the next call with kTell.
enum class SyncErrors : uint8_t { kTell, kKeep };

// A device of the kernel, reached as #NAME. All calls may sleep, with no lock held. A comment says
// "open file" if `chan` must be open, "open or not" if it may be; otherwise `chan` is not open. A
// device does not override the calls that it does not support; the default's error is given below.
class Device {
 public:
  constexpr Device(const char* name) : name_(name) {}
  const char* name() const { return name_; }

  // A channel to the root of the device. `spec` is the text after the dot in #name.spec, usually
  // empty.
  virtual Result<Ref<Chan>> attach(std::string_view spec);
  // A new channel to the entry `name` of the directory `chan` (which may be open). "." and ".."
  // never get here: the path walk resolves them by name. Search permission has been checked.
  // ENOENT, ENOTDIR.
  virtual Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) = 0;
  // Open or not. Implementations start from fill_stat.
  virtual Result<void> stat(Chan& chan, abi_stat& stat) = 0;
  // Checks permission and makes `chan`, which nobody else holds, an open file (is_open,
  // open_flags); may return another channel instead, as clone files do. A failed open leaves the
  // channel unchanged. EACCES, EISDIR.
  virtual Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) = 0;
  // Makes and opens a file or directory (mode & ABI_S_IFMT) `name` in the directory `directory`; a
  // FIFO is made but not opened. The caller has checked the permission to write to the directory,
  // as for remove and rename. A device that is able to checks the permission again, in one step
  // with the change. EEXIST if the name exists. EPERM by default.
  virtual Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags,
                                   uint32_t mode, const Credentials& who);
  // Open file. Reads from `offset` and returns the number of bytes; 0 at the end. `buffer` is
  // kernel memory. EISDIR for directories.
  virtual Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // If chan.open_flags has ABI_O_APPEND and the file has an end, writes at the end and ignores
  // `offset`. A device with one_offset then sets chan.offset to the end of the written bytes.
  virtual Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) = 0;
  // For an open file `chan` to which commands are written: the size in bytes of the largest write,
  // at most kLargestCommand. write() gets each such write whole, in one call. By default 0: a
  // program's write may reach write() in several calls.
  static constexpr size_t kLargestCommand = size_t{64} << 10;
  virtual size_t longest_command(const Chan& chan) const;
  // Open directory: stores the first entry at or after `position` in `entry` and `name`
  // (NUL-terminated, 256 bytes) and advances `position` to the next. Position 0 is the beginning;
  // the device chooses the other positions, below 2^48. An entry that stays is seen exactly once
  // even if other entries come and go. ENOENT after the last. The caller adds "." and "..".
  virtual Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name);
  // The last reference of a channel, open or not, is gone: releases `state`. Must not fail.
  virtual void close(Chan& chan);
  // Called when Chan::clone makes `copy` from `chan`: sets copy.state. By default copies the
  // pointer.
  virtual Result<void> clone_state(Chan& chan, Chan& copy);
  // Removes `chan`, which the walk has found at `from`; rename() moves it to `to`. ENOENT if `chan`
  // is not at `from` any more, EPERM by default.
  virtual Result<void> remove(Chan& chan, const DirectoryEntry& from, const Credentials& who);
  virtual Result<void> rename(Chan& chan, const DirectoryEntry& from, const DirectoryEntry& to,
                              const Credentials& who);
  // Makes a symbolic link `name` in `directory`; `target` is shorter than kMaxPath. EEXIST, EPERM
  // by default.
  virtual Result<void> symlink(Chan& directory, std::string_view name, std::string_view target,
                               const Credentials& who);
  // Copies the target of the symbolic link `chan` to `target` (kMaxPath bytes) without a NUL.
  // Returns its length, below kMaxPath. EINVAL by default.
  virtual Result<size_t> readlink(Chan& chan, char* target);
  // Makes another name for the file `chan`, which is no directory. EEXIST, EPERM by default.
  virtual Result<void> link(Chan& chan, const DirectoryEntry& to, const Credentials& who);
  virtual Result<void> truncate(Chan& chan, uint64_t size,
                                const Credentials& who);  // EINVAL by default
  // Open or not. check_attributes defines the permissions. EPERM by default.
  virtual Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                                      const Credentials& who);
  // Open file: makes written data as durable as the device can. `data_only`: the file's times need
  // not become durable. Does nothing by default: data is durable when write returns.
  virtual Result<void> sync(Chan& chan, bool data_only);
  // Open file: prepares it for mapping; `writes`: for writable shared maps. ENODEV by default: no
  // file of the device can be mapped; ENOMEM, and the device's own errors.
  virtual Result<void> map(Chan& chan, bool writes);
  // Page `index` of a file prepared for mapping; makes the page if `chan` is mapped for writing.
  // ENXIO if the file ends before the page; ENOMEM, ENOSPC, EIO, EINTR.
  virtual Result<FilePage> page(Chan& chan, uint64_t index);
  // Writes back to the device what programs have changed through shared maps in the `size` bytes
  // from `offset` on. Has the effect of write(). Does nothing by default.
  virtual Result<void> sync_pages(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors);
  // Used and free space of the device. By default reports 0 blocks.
  virtual Result<void> statfs(Chan& chan, abi_statfs& result);
  virtual Result<void> ioctl(
      Chan& chan, uint32_t request,
      void* argument);  // ENOTTY by default; `argument` is kernel memory of the request's type
  // Returns the directory in which `chan` is now, and its name in this directory in `name` (256
  // bytes). Returns an empty reference for the device's root. ENOENT if `chan` has been removed or
  // the device cannot tell. ENOTSUP by default, for devices whose names never change.
  virtual Result<Ref<Chan>> parent(Chan& chan, char* name);
  // The subset of ABI_POLLIN | ABI_POLLOUT that would not block, with ABI_POLLERR and ABI_POLLHUP;
  // by default ABI_POLLIN | ABI_POLLOUT. `waiter` may be nullptr and does not outlive the channel.
  // A device whose answer can change first calls waiter->wait_on() for each queue that it wakes
  // after a change, and then determines the answer; or it calls look_again() if it is not told of
  // changes.
  virtual uint16_t poll(Chan& chan, PollWaiter* waiter);
  // True if reads have an offset; false for streams (lseek gives ESPIPE).
  virtual bool seekable() const { return true; }

  // True if the kernel honours the set-user-id and set-group-id bits of the device's files.
  virtual bool grants_rights() const { return true; }

  // True if calls that use chan.offset exclude each other, which requires that these calls do not
  // wait for other processes.
  virtual bool one_offset() const { return false; }

  // The device's number, constant during its life; abi_stat.dev.
  uint32_t id() const { return id_; }

 protected:
  // Zeroes `stat` and sets dev, ino, mode, size, one link, and the block size; owned by root.
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
// directories that come and go. This class implements attach, walk, stat, open with permissions,
// and entry; directories cannot be read or written. The device implements read_file and write_file
// for open files and switches on chan.qid.path, which is the index in the table:
//
//   constexpr TableEntry kTable[] = {{"", ABI_S_IFDIR | 0555, 0},
//                                    {"free", ABI_S_IFREG | 0444, 0},
//                                    {"trace", ABI_S_IFDIR | 0500, 0}};
//
// A device with nodes overrides the dynamic_* functions. The nodes' qid paths are kDynamic and
// above; the device defines the meaning of these numbers. A node's channel may have a reference in
// chan.state from the walk on; the device then overrides clone_state and close, where chan.is_open
// distinguishes the states of nodes and open files.
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

  // `chan` (not a directory) is being opened and permission is granted: makes chan.state, which
  // close releases. Does nothing by default.
  virtual Result<void> open_file(Chan& chan, uint32_t flags);
  // These four functions implement Device's functions of the same names without _file; `chan` is an
  // open file. Several processes may have the file open and call the functions at once: shared data
  // in chan.state is made by open_file, or guarded by a lock.
  virtual Result<size_t> read_file(Chan& chan, char* buffer, size_t size,
                                   uint64_t offset);  // EACCES by default
  virtual Result<size_t> write_file(Chan& chan, const char* buffer, size_t size,
                                    uint64_t offset);  // EACCES by default
  virtual Result<void> ioctl_file(Chan& chan, uint32_t request,
                                  void* argument);  // ENOTTY by default
  virtual uint16_t poll_file(Chan& chan,
                             PollWaiter* waiter);  // ABI_POLLIN | ABI_POLLOUT by default
  // Looks up `name`, which is not in the table, in `directory`: sets chan.qid and optionally
  // chan.state. ENOENT by default.
  virtual Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan);
  // stat of a node with a dynamic qid; implementations start from fill_stat. ENOENT by default.
  virtual Result<void> dynamic_stat(Chan& chan, abi_stat& stat);
  // The dynamic entry number `index` of `directory`, after those of the table; `name` has 256
  // bytes. ENOENT after the last, and by default.
  virtual Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry, char* name);

 private:
  const std::span<const TableEntry> table_;
};

// A growing text: the content of a file that is generated at open. print never fails; if memory
// runs out the text ends there, and failed() is true.
class Text {
 public:
  static Result<Text*> create();  // ENOMEM
  static void destroy(Text* text);
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

  char* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  bool failed_ = false;
};

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
