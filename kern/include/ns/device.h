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
  uint32_t uid = 0, gid = 0;                  // effective
  uint32_t real_uid = uid, real_gid = gid;    // of the user who started it
  uint32_t saved_uid = uid, saved_gid = gid;  // that it may change to
  uint32_t group_count = 0;
  uint32_t groups[ABI_GROUPS_MAX] = {};  // supplementary

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
  // ABI_O_* after open. F_SETFL changes some, but not O_APPEND while the offset is held.
  std::atomic<uint32_t> open_flags{0};
  bool is_open = false;
  // The rights of the opener: the device uses these in later reads and writes, not those of the
  // process that has the descriptor by then. Nobody's until it is opened.
  Credentials opener{.uid = UINT32_MAX, .gid = UINT32_MAX};
  uint64_t offset = 0;  // of read, write, lseek without a position of their own; OffsetHold
  std::atomic<uint8_t> offset_hold{0};  // for OffsetHold
  void* state = nullptr;     // of the device, for an open file or a node; released by Device::close
  uint64_t kept_number = 0;  // keep()
  char* path = nullptr;      // the canonical name that led here, updated after renames, for
                             // getcwd, `..` and messages; kmalloc'ed, may be nullptr
  std::atomic<uint64_t> named_at{0};  // directory_renames() when `path` led here

  // For the namespace: the file that this one was mounted on, by device and qid path, to find its
  // union again.
  Device* mount_device = nullptr;
  uint64_t mount_path = 0;
  Ref<Chan> union_next;  // an open directory of a union: the next member, open too

  UsedFile* used_file = nullptr;             // for file_use_begin
  bool may_have_lock = false;                // for open_file_lock_set
  std::atomic<CachedFile*> cached{nullptr};  // for the page cache; stays when it is set
  std::atomic<bool> writes_pages{false};  // for the page cache: a shared map may write through it

  // ENOMEM. All three may sleep.
  static Result<Ref<Chan>> create(Device* device, Qid qid);
  // Another channel to the same file of the same device, not open and without a name. This channel
  // must not be open unless it is a directory.
  Result<Ref<Chan>> clone();
  static void destroy(Chan* chan);

  // Keeps a reference as the state, for a device whose files are counted objects.
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

// A change of a file's attributes; those without a value stay.
struct AttributeChange {
  struct Time {
    bool now;         // the present time
    abi_timespec at;  // otherwise
  };
  std::optional<uint32_t> mode;  // permissions
  std::optional<uint32_t> uid, gid;
  std::optional<Time> accessed, modified;
};

// Checks that `who` may make the change to a file whose attributes are `now`. The owner and root
// may set mode and times; a user with write permission, the times to the present; root, the owner;
// the owner, the group, to one of his own. Adjusts `change` to the resulting attributes: setting an
// owner clears the set-user-id and set-group-id bits; a mode set by a user who is not in the file's
// group loses set-group-id. EPERM, EACCES.
Result<void> check_attributes(const abi_stat& now, AttributeChange& change, const Credentials& who);
// True if `who` has all of the rights `want` (4 read, 2 write, 1 execute or search) to a file with
// these permissions.
bool permitted(uint32_t mode, uint32_t uid, uint32_t gid, const Credentials& who, uint32_t want);
// The rights that an open with ABI_O_* `flags` needs. kOpenToExecute is kernel-internal: the kernel
// reads the file to run it, and the opener needs only the right to execute.
inline constexpr uint32_t kOpenToExecute = 1u << 31;
uint32_t wanted_by_open(uint32_t flags);

// A directory entry, existing or to be made: `name` in `directory`, which is the member of the
// union if there is one.
struct Place {
  Chan& directory;
  std::string_view name;
};

// A page of a file for an address space. The caller has a mapping of it (Page::mappings), to keep
// in page tables or to give back (page_unmapped).
struct FilePage {
  PhysAddr physical;
  // The number of changes that may have replaced or removed the page; lives as long as the channel.
  const std::atomic<uint64_t>* changes;
  uint64_t change;  // `changes` when the page was looked up
};

// Errors of the device when pages are written back, now or earlier: they are returned once (kTell),
// or kept for the next call with kTell.
enum class SyncErrors : uint8_t { kTell, kKeep };

// A device of the kernel, reached as #NAME. All calls may sleep, with no lock held. `chan` is not
// open unless stated. A device does not override the calls that it does not support; the default's
// error is given below.
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
  // open_flags); may return another channel instead (clone files). A failed open leaves the channel
  // unchanged. EACCES, EISDIR.
  virtual Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) = 0;
  // Makes and opens a file or (mode & ABI_S_IFMT) directory `name` in the directory `directory`; a
  // FIFO is made but not opened. The caller has checked the permission to write there, as for
  // remove and rename; a device that can checks it again in one step with the change. EEXIST if the
  // name exists. EPERM here.
  virtual Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags,
                                   uint32_t mode, const Credentials& who);
  // Open file. Reads from `offset` and returns the number of bytes; 0 at the end. `buffer` is
  // kernel memory. EISDIR for directories.
  virtual Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // With ABI_O_APPEND in chan.open_flags, writes at the end of a file that has one and ignores
  // `offset`; a device with one_offset then sets chan.offset to the end of the written bytes.
  virtual Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) = 0;
  // The largest write to the open file `chan` if the device takes a write as commands, whole or not
  // at all: write() then gets all of it in one call. At most kLargestCommand. 0, as here: a write
  // may come in several calls.
  static constexpr size_t kLargestCommand = size_t{64} << 10;
  virtual size_t longest_command(const Chan& chan) const;
  // Open directory: stores the first entry at or after `position` in `entry` and `name`
  // (NUL-terminated, 256 bytes) and advances `position` to the next. Position 0 is the beginning;
  // the device chooses the others, below 2^48. An entry that stays is seen exactly once even if
  // others come and go. ENOENT after the last. The caller adds "." and "..".
  virtual Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name);
  // The last reference of a channel, open or not, is gone: releases `state`. Must not fail.
  virtual void close(Chan& chan);
  // Chan::clone makes `copy` from `chan`: gives the copy a state of its own. Here: the same
  // pointer.
  virtual Result<void> clone_state(Chan& chan, Chan& copy);
  // The walk has found `chan` at `from`. ENOENT if it is not there any more, EPERM here.
  virtual Result<void> remove(Chan& chan, const Place& from, const Credentials& who);
  virtual Result<void> rename(Chan& chan, const Place& from, const Place& to,
                              const Credentials& who);
  // Makes a symbolic link `name` in `directory`; `target` is shorter than kMaxPath. EEXIST, EPERM
  // here.
  virtual Result<void> symlink(Chan& directory, std::string_view name, std::string_view target,
                               const Credentials& who);
  // Copies the target of the symbolic link `chan` to `target` (kMaxPath bytes) without a NUL.
  // Returns its length, below kMaxPath. EINVAL here.
  virtual Result<size_t> readlink(Chan& chan, char* target);
  // Makes another name for the file `chan`, which is no directory. EEXIST, EPERM here.
  virtual Result<void> link(Chan& chan, const Place& to, const Credentials& who);
  virtual Result<void> truncate(Chan& chan, uint64_t size, const Credentials& who);  // EINVAL here
  // Open or not. check_attributes defines the permissions. EPERM here.
  virtual Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                                      const Credentials& who);
  // Open file: makes written data as durable as the device can. `data_only`: not the times. Does
  // nothing here: data is durable when write returns.
  virtual Result<void> sync(Chan& chan, bool data_only);
  // Open file: prepares it for mapping; `writes`: for writable shared maps. ENODEV here: no file of
  // the device can be mapped; ENOMEM, and the device's own errors.
  virtual Result<void> map(Chan& chan, bool writes);
  // Page `index` of a file prepared for mapping; makes the page if `chan` is mapped for writing.
  // ENXIO if the file ends before it; ENOMEM, ENOSPC, EIO, EINTR.
  virtual Result<FilePage> page(Chan& chan, uint64_t index);
  // Writes changes by shared maps of `size` bytes from `offset` on back to the device, as write()
  // would. Does nothing here.
  virtual Result<void> sync_pages(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors);
  // Used and free space of the device. Here: a device without blocks.
  virtual Result<void> statfs(Chan& chan, abi_statfs& result);
  virtual Result<void> ioctl(
      Chan& chan, uint32_t request,
      void* argument);  // ENOTTY here; `argument` is kernel memory of the request's type
  // The current directory of `chan`, and its name there in `name` (256 bytes); an empty reference
  // for the device's root. ENOENT if `chan` has been removed or the device cannot tell. ENOTSUP
  // here, for devices whose names never change.
  virtual Result<Ref<Chan>> parent(Chan& chan, char* name);
  // The subset of ABI_POLLIN | ABI_POLLOUT that would not block, with ABI_POLLERR and ABI_POLLHUP;
  // both of the first two here. `waiter` may be nullptr and does not outlive the channel. A device
  // whose answer can change first calls waiter->wait_on() for each queue that it wakes after a
  // change, and then determines the answer; or look_again() if it is not told of changes.
  virtual uint16_t poll(Chan& chan, PollWaiter* waiter);
  // True if reads have an offset; false for streams (lseek gives ESPIPE).
  virtual bool seekable() const { return true; }

  // True if the set-user-id and set-group-id bits of its files are honoured.
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
  uint32_t parent;  // index in the table; entry 0 is the root, its own parent
};

// A device whose tree is a fixed table; its directories may also have changing nodes. This class
// implements attach, walk, stat, open with permissions, and entry; directories cannot be read or
// written. The device implements read_file and write_file for open files and switches on
// chan.qid.path, which is the index in the table:
//
//   constexpr TableEntry kTable[] = {{"", ABI_S_IFDIR | 0555, 0},
//                                    {"free", ABI_S_IFREG | 0444, 0},
//                                    {"trace", ABI_S_IFDIR | 0500, 0}};
//
// A device with changing nodes overrides the dynamic_* functions. The nodes' qid paths are kDynamic
// and above; the device defines their meaning. A node's channel may have a reference in chan.state
// from the walk on; the device then overrides clone_state and close, where chan.is_open
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
  // close releases. Does nothing here.
  virtual Result<void> open_file(Chan& chan, uint32_t flags);
  // As in Device, for open files only. Several processes may have the file open and call these at
  // once: shared data in chan.state is made by open_file, or guarded by a lock.
  virtual Result<size_t> read_file(Chan& chan, char* buffer, size_t size,
                                   uint64_t offset);  // EACCES here
  virtual Result<size_t> write_file(Chan& chan, const char* buffer, size_t size,
                                    uint64_t offset);                             // EACCES here
  virtual Result<void> ioctl_file(Chan& chan, uint32_t request, void* argument);  // ENOTTY here
  virtual uint16_t poll_file(Chan& chan, PollWaiter* waiter);  // ABI_POLLIN | ABI_POLLOUT here
  // Looks up `name`, which is not in the table, in `directory`: sets chan.qid and optionally
  // chan.state. ENOENT here.
  virtual Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan);
  // stat of a node with a dynamic qid; implementations start from fill_stat. ENOENT here.
  virtual Result<void> dynamic_stat(Chan& chan, abi_stat& stat);
  // The dynamic entry number `index` of `directory`, after those of the table; `name` has 256
  // bytes. ENOENT after the last, and here.
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
  // For Device::read.
  size_t read(char* buffer, size_t size, uint64_t offset) const;

 private:
  bool reserve(size_t more);  // makes room for so many bytes beyond size_

  char* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  bool failed_ = false;
};

// Reads `size` bytes of `text` at `offset`; 0 at the end.
size_t read_text(std::string_view text, char* buffer, size_t size, uint64_t offset);

// One command line of a control file: the first word, and the rest without surrounding blanks.
struct CommandLine {
  std::string_view word, rest;
};
// Takes the next line that is not blank off `text`; false at the end.
bool next_command(std::string_view& text, CommandLine& line);
// Checks a text written to a control file: EINVAL unless it is plain text of at most
// kMaxCommandText bytes. `expected` is the valid form, for the error string.
inline constexpr size_t kMaxCommandText = 4096;
Result<void> check_command_text(std::string_view text, const char* expected);
