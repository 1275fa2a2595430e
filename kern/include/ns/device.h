// Devices and channels, after Plan 9: everything that has a name is a file of a device, and a
// channel is a place in one.
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
#include "lib/result.h"
#include "lib/units.h"

class Device;
class PollWaiter;
struct Process;
struct CachedFile;
struct UsedFile;

// Names a file of a device for as long as the system runs: two channels with equal device and qid
// path are the same file.
struct Qid {
  uint64_t path = 0;
  uint32_t version = 0;
  bool directory = false, symlink = false, fifo = false;
  bool operator==(const Qid& other) const { return path == other.path; }
};

// Who asks, for permission checks. uid 0 may do everything.
struct Credentials {
  uint32_t uid = 0, gid = 0;                  // effective
  uint32_t real_uid = uid, real_gid = gid;    // who started it
  uint32_t saved_uid = uid, saved_gid = gid;  // what it may change to
  uint32_t group_count = 0;
  uint32_t groups[ABI_GROUPS_MAX] = {};  // supplementary

  bool is_in(uint32_t group) const;
  // With the real user and group as the effective ones, for access().
  Credentials real() const;
};

// What an open file is used for that others may not do at the same time (file_use_begin).
enum class FileUse : uint8_t {
  kWritten,   // open for writing, or being truncated
  kExecuted,  // a program that is loaded or runs
};

// A place in a device's tree; after Device::open an open file.
class Chan : public RefCounted<Chan> {
 public:
  static constexpr RefKind kRefKind = RefKind::kChan;
  Device* device = nullptr;
  Qid qid;
  // ABI_O_* after open. F_SETFL changes some, but O_APPEND not while somebody holds the offset.
  std::atomic<uint32_t> open_flags{0};
  bool is_open = false;
  // Who opened it: what a device does for a reader or writer later, it does with these rights, not
  // with those of the process that has the descriptor by then. Nobody's until it is opened.
  Credentials opener{.uid = UINT32_MAX, .gid = UINT32_MAX};
  uint64_t offset = 0;  // of read, write, lseek without a position of their own; OffsetHold
  std::atomic<uint8_t> offset_hold{0};  // OffsetHold's
  void* state = nullptr;  // the device's own, for an open file or a node; released by Device::close
  uint64_t kept_number = 0;  // keep()
  char* path = nullptr;      // the canonical name it was reached by, or has since a rename, for
                             // getcwd, `..` and messages; kmalloc'ed, may be nullptr
  std::atomic<uint64_t> named_at{0};  // directory_renames() when it led here

  // The namespace's: the file that this one was mounted on, by device and qid path, for looking its
  // union up again.
  Device* mount_device = nullptr;
  uint64_t mount_path = 0;
  Ref<Chan> union_next;  // an open directory of a union: the next member, open too

  UsedFile* used_file = nullptr;             // file_use_begin's
  bool may_have_lock = false;                // open_file_lock_set's
  std::atomic<CachedFile*> cached{nullptr};  // the page cache's; stays when it is set
  std::atomic<bool> writes_pages{false};     // the page cache's: a shared map may write through it

  // ENOMEM. May sleep, as all three.
  static Result<Ref<Chan>> create(Device* device, Qid qid);
  // Another channel, not open and without a name, to the same file of the same device; itself must
  // not be open, unless it is a directory.
  Result<Ref<Chan>> clone();
  static void destroy(Chan* chan);

  // A reference as the state, for a device whose files are counted objects.
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

// What becomes of a file's attributes; what has no value stays.
struct AttributeChange {
  struct Time {
    bool now;         // the present time
    abi_timespec at;  // otherwise
  };
  std::optional<uint32_t> mode;  // permissions
  std::optional<uint32_t> uid, gid;
  std::optional<Time> accessed, modified;
};

// Whether `who` may change what is `now` so: the owner and root the mode and the times; who may
// write to it, the times to now; root the owner; the owner the group, to one of his own. `change`
// becomes what happens then: setting an owner takes the set-user-id and set-group-id bits away, and
// a mode of who is not in the file's group has no set-group-id. EPERM, EACCES.
Result<void> check_attributes(const abi_stat& now, AttributeChange& change, const Credentials& who);
// Whether `who` has all of `want` (4 read, 2 write, 1 execute or search) on what has these
// permissions.
bool permitted(uint32_t mode, uint32_t uid, uint32_t gid, const Credentials& who, uint32_t want);
// What of it an open with ABI_O_* `flags` wants. kOpenToExecute is the kernel's own: read for the
// kernel to run it, on which who opens it needs the right to execute only.
inline constexpr uint32_t kOpenToExecute = 1u << 31;
uint32_t wanted_by_open(uint32_t flags);

// Where a walk found something, or something is to be: in `directory`, a member of the union if it
// is one, by `name`.
struct Place {
  Chan& directory;
  std::string_view name;
};

// A page of a file for an address space. The caller has a mapping of it (Page::mappings), to keep
// in page tables or to give back (page_unmapped).
struct FilePage {
  PhysAddr physical;
  // Counts what may make the page another one or no one; lives as long as the channel.
  const std::atomic<uint64_t>* changes;
  uint64_t change;  // when the page was looked up
};

// Errors of the device when pages are written back, now or earlier: the caller is told, once, or
// they are kept for the next one who asks.
enum class SyncErrors : uint8_t { kTell, kKeep };

// A device of the kernel, reached as #NAME. All calls may sleep, with no lock held. `chan` is not
// open unless said. What a device does not support it does not override: the error is given below.
class Device {
 public:
  constexpr Device(const char* name) : name_(name) {}
  const char* name() const { return name_; }

  // A channel to the root of the device; `spec` is what stands after the name as in #name.spec,
  // mostly empty.
  virtual Result<Ref<Chan>> attach(std::string_view spec);
  // A new channel to the entry `name` of the directory `chan` (which may be open). "." and ".."
  // never get here: the path walk resolves them by name. Search permission has been checked.
  // ENOENT, ENOTDIR.
  virtual Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) = 0;
  // Open or not. Implementations start from fill_stat.
  virtual Result<void> stat(Chan& chan, abi_stat& stat) = 0;
  // Checks permission and makes `chan`, which nobody else holds, an open file (is_open,
  // open_flags); may give another channel in its place (clone files). A channel whose open failed
  // is as it was. EACCES, EISDIR.
  virtual Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) = 0;
  // Makes and opens a file or (mode & ABI_S_IFMT) directory `name` in the directory `directory`; a
  // FIFO is made only.
  // Permission to write there has been checked, as for remove and rename: whoever can checks again
  // in one step with the change. EEXIST if it is there already. EPERM here.
  virtual Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags,
                                   uint32_t mode, const Credentials& who);
  // Open file. Bytes read from `offset`; 0 at the end. `buffer` is kernel memory. EISDIR on
  // directories.
  virtual Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // With ABI_O_APPEND in chan.open_flags a file that has an end is written there, whatever `offset`
  // is; a device with one_offset then sets chan.offset to where what was written ends.
  virtual Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) = 0;
  // The most bytes of one write to the open file `chan` if that is commands, which the device takes
  // whole or not at all: write() then gets all of it at once. At most kLargestCommand. 0, as here:
  // a write may come in parts.
  static constexpr size_t kLargestCommand = size_t{64} << 10;
  virtual size_t longest_command(const Chan& chan) const;
  // Open directory: the first entry at or after `position` (0 is the beginning, the rest is the
  // device's choice, below 2^48) into `entry` and `name` (NUL-terminated, 256 bytes); `position`
  // becomes that of the next. Entries that stay are seen once although others come and go
  // meanwhile. ENOENT after the last. "." and ".." are the caller's.
  virtual Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name);
  // The last reference of a channel is gone (open or not): release `state`. Must not fail.
  virtual void close(Chan& chan);
  // `copy` is being made by Chan::clone of `chan`: give it a state of its own where there is one.
  // Here: the same pointer.
  virtual Result<void> clone_state(Chan& chan, Chan& copy);
  // `chan` is what the walk found at `from`. ENOENT if it is not there any more, EPERM here.
  virtual Result<void> remove(Chan& chan, const Place& from, const Credentials& who);
  virtual Result<void> rename(Chan& chan, const Place& from, const Place& to,
                              const Credentials& who);
  // A symbolic link `name` in `directory`; `target` is shorter than kMaxPath. EEXIST, EPERM here.
  virtual Result<void> symlink(Chan& directory, std::string_view name, std::string_view target,
                               const Credentials& who);
  // Where the symbolic link `chan` leads: into `target`, which has kMaxPath bytes, without a NUL;
  // its length, below kMaxPath. EINVAL here.
  virtual Result<size_t> readlink(Chan& chan, char* target);
  // One more name for the file `chan`, which is no directory. EEXIST, EPERM here.
  virtual Result<void> link(Chan& chan, const Place& to, const Credentials& who);
  virtual Result<void> truncate(Chan& chan, uint64_t size, const Credentials& who);  // EINVAL here
  // Open or not. check_attributes says who may. EPERM here.
  virtual Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                                      const Credentials& who);
  // Open file: what was written is where it survives what the device can survive. `data_only`:
  // times need not be. Nothing here: it is there when write returns.
  virtual Result<void> sync(Chan& chan, bool data_only);
  // Open file: makes it ready to be mapped; with `writes` through shared maps that may be written
  // to. ENODEV here: no file of it can be mapped; ENOMEM, and what the device has to say.
  virtual Result<void> map(Chan& chan, bool writes);
  // A file that can be mapped: page `index`, which is made if `chan` is mapped for writing. ENXIO
  // if the file ends before it; ENOMEM, ENOSPC, EIO, EINTR.
  virtual Result<FilePage> page(Chan& chan, uint64_t index);
  // The same: makes the device have what shared maps have changed of `size` bytes from `offset` on,
  // as write() would. Nothing here.
  virtual Result<void> sync_pages(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors);
  // How much the device's files have and may have. Here: a device without blocks.
  virtual Result<void> statfs(Chan& chan, abi_statfs& result);
  virtual Result<void> ioctl(
      Chan& chan, uint32_t request,
      void* argument);  // ENOTTY here; `argument` is kernel memory of the request's type
  // The directory in which `chan` is now, and into `name` (256 bytes) by which name; nothing for
  // the device's root. ENOENT if it has been removed, or the device cannot tell; ENOTSUP here:
  // names that never change are nobody's to ask for.
  virtual Result<Ref<Chan>> parent(Chan& chan, char* name);
  // What of ABI_POLLIN | ABI_POLLOUT would not block, with ABI_POLLERR and ABI_POLLHUP; the first
  // two here. With a `waiter` (not nullptr), which lives shorter than the channel, a device whose
  // answer can change calls its wait_on() for each queue that it wakes after a change, and only
  // then looks; or look_again() if it cannot tell.
  virtual uint16_t poll(Chan& chan, PollWaiter* waiter);
  // A read of which can be asked for at an offset; false for streams (lseek gives ESPIPE).
  virtual bool seekable() const { return true; }

  // Whether set-user-id and set-group-id bits of its files count.
  virtual bool grants_rights() const { return true; }

  // Whether calls that use chan.offset exclude each other: on files whose calls do not wait for
  // somebody else.
  virtual bool one_offset() const { return false; }

  // Number of the device, the same for its life; abi_stat.dev.
  uint32_t id() const { return id_; }

 protected:
  // Zeroes `stat` and sets dev, ino, mode, size, one link, and the block size; root's.
  void fill_stat(abi_stat& stat, uint64_t path, uint32_t mode, uint64_t size = 0) const;

 private:
  friend void device_register(Device* device);
  const char* name_;
  uint32_t id_ = 0;
  Device* next_ = nullptr;
  friend Device* device_find(std::string_view name);
};

// Registered at boot by each device's init function; the device must live for ever.
void device_register(Device* device);
Device* device_find(std::string_view name);

// One file or directory of a TableDevice.
struct TableEntry {
  const char* name;
  uint32_t mode;    // ABI_S_IFDIR or ABI_S_IFREG or ABI_S_IFCHR, and permissions; the owner is root
  uint32_t parent;  // index in the table; entry 0 is the root, its own parent
};

// A device whose tree is a fixed table, into whose directories it may put further, changing nodes.
// attach, walk, stat, open with permissions, and entry are done here, and directories are read and
// written by nobody; the device writes read_file and write_file, which see open files only, and
// switches on chan.qid.path, which is the index in the table:
//
//   constexpr TableEntry kTable[] = {{"", ABI_S_IFDIR | 0555, 0},
//                                    {"free", ABI_S_IFREG | 0444, 0},
//                                    {"trace", ABI_S_IFDIR | 0500, 0}};
//
// A device with changing nodes overrides the dynamic_* functions; their qid paths are kDynamic and
// above and mean what the device likes. A node's channel may carry a reference in chan.state from
// the walk on; the device then has clone_state and close, in which chan.is_open tells the states of
// the two kinds apart.
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

  // `chan` (not a directory) is being opened with permission: makes chan.state, which close
  // releases. Nothing here.
  virtual Result<void> open_file(Chan& chan, uint32_t flags);
  // As Device's, of open files only. Several processes may have the file open, and be in here at
  // once: what they share in chan.state is made by open_file, or is behind a lock.
  virtual Result<size_t> read_file(Chan& chan, char* buffer, size_t size,
                                   uint64_t offset);  // EACCES here
  virtual Result<size_t> write_file(Chan& chan, const char* buffer, size_t size,
                                    uint64_t offset);                             // EACCES here
  virtual Result<void> ioctl_file(Chan& chan, uint32_t request, void* argument);  // ENOTTY here
  virtual uint16_t poll_file(Chan& chan, PollWaiter* waiter);  // ABI_POLLIN | ABI_POLLOUT here
  // `name`, which is not in the table, in `directory`: sets chan.qid and, if it likes, chan.state.
  // ENOENT here.
  virtual Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan);
  // Of a node with a dynamic qid; begins with fill_stat. ENOENT here.
  virtual Result<void> dynamic_stat(Chan& chan, abi_stat& stat);
  // The dynamic entry number `index` of `directory`, after those of the table; `name` has 256
  // bytes. ENOENT after the last, and here.
  virtual Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry, char* name);

 private:
  const std::span<const TableEntry> table_;
};

// A growing text: what a file that is made at open holds. print never fails; when memory ran out
// the text ends, and failed() says so.
class Text {
 public:
  static Result<Text*> create();  // ENOMEM
  static void destroy(Text* text);
  void print(const char* pattern, ...) __attribute__((format(printf, 2, 3)));
  void append(std::string_view bytes);
  bool failed() const { return failed_; }
  // Empty again, with the memory that it has.
  void clear() { size_ = 0; }
  size_t capacity() const { return capacity_; }
  std::string_view view() const { return {data_, size_}; }
  // For Device::read.
  size_t read(char* buffer, size_t size, uint64_t offset) const;

 private:
  bool reserve(size_t more);  // room for so many bytes beyond size_

  char* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  bool failed_ = false;
};

// The part of `text` that a read of `size` bytes at `offset` gets; 0 at the end.
size_t read_text(std::string_view text, char* buffer, size_t size, uint64_t offset);

// One command line of a control file: the first word, and what comes after it without blanks
// around.
struct CommandLine {
  std::string_view word, rest;
};
// Takes the next line that is not blank off `text`; false at the end.
bool next_command(std::string_view& text, CommandLine& line);
// Takes the next word off `rest`; empty at the end.
std::string_view next_word(std::string_view& rest);
// What is written to a control file: EINVAL unless it is plain text of at most kMaxCommandText
// bytes.
// `expected` says in the error string what would have been right.
inline constexpr size_t kMaxCommandText = 4096;
Result<void> check_command_text(std::string_view text, const char* expected);
