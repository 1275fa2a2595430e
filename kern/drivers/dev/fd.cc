// #fd: the open files of the calling process. `fd/N` is the open file with descriptor N; `stdin`,
// `stdout` and `stderr` are those with descriptors 0, 1 and 2. Opening one of these files is like
// dup: the result is the same open file. EACCES if the caller asks for more access than the open
// file has.

#include "drivers/dev/devices.h"
#include "lib/format.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "proc/process.h"

namespace {

enum File : uint64_t { kRoot, kFolder, kStdin, kStdout, kStderr };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, 0},       {"fd", ABI_S_IFDIR | 0555, 0},
    {"stdin", ABI_S_IFCHR | 0666, 0},  {"stdout", ABI_S_IFCHR | 0666, 0},
    {"stderr", ABI_S_IFCHR | 0666, 0},
};

class FdDevice final : public TableDevice {
 public:
  constexpr FdDevice() : TableDevice("fd", kTable) {}

  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override {
    if (chan->qid.directory) return TableDevice::open(std::move(chan), flags, who);
    Ref<Chan> file = TRY(process_file(descriptor_of(*chan)));
    const uint32_t mode = file->open_flags & ABI_O_ACCMODE, wanted = flags & ABI_O_ACCMODE;
    if (mode != ABI_O_RDWR && mode != wanted) return Errno::EACCES;
    return file;
  }
  bool opens_existing(const Chan& chan) const override { return !chan.qid.directory; }
  // Returns the attributes of the open file itself.
  Result<void> stat(Chan& chan, abi_stat& stat) override {
    if (chan.qid.directory) return TableDevice::stat(chan, stat);
    const Ref<Chan> file = TRY(process_file(descriptor_of(chan)));
    return file->device->stat(*file, stat);
  }
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override {
    if (directory.qid.path != kFolder) return TableDevice::entry(directory, position, entry, name);
    for (; position < kMaxFds; ++position) {
      if (!process_file(static_cast<int>(position))) continue;
      fill_stat(entry, kDynamic + position, ABI_S_IFCHR | 0666);
      format(name, 256, "%lu", position);
      ++position;
      return {};
    }
    return Errno::ENOENT;
  }

 protected:
  Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan) override {
    uint64_t number;
    if (directory.qid.path != kFolder || !parse_file_number(name, kMaxFds - 1, &number))
      return Errno::ENOENT;
    if (!process_file(static_cast<int>(number))) return Errno::ENOENT;
    chan.qid.path = kDynamic + number;
    return {};
  }

 private:
  static int descriptor_of(const Chan& chan) {
    return static_cast<int>(is_dynamic(chan) ? chan.qid.path - kDynamic : chan.qid.path - kStdin);
  }
};

constinit FdDevice device;

}  // namespace

void fd_device_init() {
  device_register(&device);
}
