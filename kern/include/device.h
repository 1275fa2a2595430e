// Devices and channels, after Plan 9: everything that has a name is a file of a device, and a channel is a place in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "abi/syscall.h"
#include "lib/ref.h"
#include "lib/result.h"
#include "lib/units.h"

class Device;
struct Process;

// Names a file of a device for as long as the system runs: two channels with equal device and qid path are the same file.
struct Qid {
  uint64_t path = 0;
  uint32_t version = 0;
  bool directory = false;
  bool operator==(const Qid& other) const { return path == other.path; }
};

// Who asks, for permission checks. uid 0 may do everything.
struct Credentials {
  uint32_t uid = 0, gid = 0;
};

// A place in a device's tree; after Device::open an open file.
class Chan : public RefCounted<Chan> {
 public:
  Device* device = nullptr;
  Qid qid;
  uint32_t open_flags = 0;       // ABI_O_* after open
  bool is_open = false;
  uint64_t offset = 0;           // of read, write, lseek without a position of their own
  void* state = nullptr;         // the device's own, for an open file or a node; released by Device::close
  char* path = nullptr;          // the name it was reached by, for getcwd and messages; kmalloc'ed, may be nullptr

  static Result<Ref<Chan>> create(Device* device, Qid qid);
  // Any device with its reference, in a channel that is not open.
  Result<Ref<Chan>> clone();
  static void destroy(Chan* chan);
};

// A device of the kernel, reached as #NAME. All calls may sleep, with no lock held. `chan` is not open unless said.
// What a device does not support it does not override: the error is given below.
class Device {
 public:
  constexpr Device(const char* name) : name_(name) {}
  const char* name() const { return name_; }

  // A channel to the root of the device; `spec` is what stands after the name as in #name.spec, mostly empty.
  virtual Result<Ref<Chan>> attach(std::string_view spec);
  // A new channel to the entry `name` of the directory `chan`; ".." is handled by the caller except at a device's inner directories, which must handle
  // it. ENOENT, ENOTDIR.
  virtual Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) = 0;
  virtual Result<void> stat(Chan& chan, abi_stat& stat) = 0;
  // Checks permission and makes `chan` an open file; may give another channel in its place (clone files). EACCES, EISDIR.
  virtual Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) = 0;
  // Makes and opens a file or (mode & ABI_S_IFDIR) directory `name` in the directory `chan`. EPERM here.
  virtual Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags, uint32_t mode, const Credentials& who);
  // Open file. Bytes read from `offset`; 0 at the end. `buffer` is kernel memory. EISDIR on directories.
  virtual Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  virtual Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) = 0;
  // Open directory: the entry number `index` into `entry` and `name` (NUL-terminated, 256 bytes). ENOENT after the last. "." and ".." are the caller's.
  virtual Result<void> entry(Chan& directory, uint64_t index, abi_stat& entry, char* name);
  // The last reference of a channel is gone (open or not): release `state`. Must not fail.
  virtual void close(Chan& chan);
  virtual Result<void> remove(Chan& chan, const Credentials& who);                                  // EPERM here
  virtual Result<void> rename(Chan& chan, Chan& directory, std::string_view name, const Credentials& who);  // EPERM here
  virtual Result<void> truncate(Chan& chan, uint64_t size, const Credentials& who);                 // EINVAL here
  virtual Result<void> chmod(Chan& chan, uint32_t mode, const Credentials& who);                    // EPERM here
  virtual Result<void> ioctl(Chan& chan, uint32_t request, void* argument);                         // ENOTTY here; `argument` is kernel memory of the request's type
  // What of ABI_POLLIN | ABI_POLLOUT would not block; both here. Not exact under races.
  virtual uint16_t poll(Chan& chan);
  // A read of which can be asked for at an offset; false for streams (lseek gives ESPIPE).
  virtual bool seekable() const { return true; }

 private:
  const char* name_;
};

// Registered at boot by each device's init function; the device must live for ever.
void device_register(Device* device);
Device* device_find(std::string_view name);

// A device whose tree is fixed tables: walk, stat and entry are done. Most devices derive from it.
struct TableEntry {
  const char* name;
  uint32_t mode;          // ABI_S_IFDIR or ABI_S_IFREG or ABI_S_IFCHR, and permissions; the owner is root
  uint32_t parent;        // index in the table; entry 0 is the root
};
