// #null: `null` discards what is written and reads as empty, `zero` reads as zeros, and `full`
// reads as zeros and rejects writes (ENOSPC).

#include "drivers/dev/devices.h"
#include "lib/string.h"
#include "ns/device.h"

namespace {

enum File : uint64_t { kNull = 1, kZero, kFull };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, 0},
    {"null", ABI_S_IFCHR | 0666, 0},
    {"zero", ABI_S_IFCHR | 0666, 0},
    {"full", ABI_S_IFCHR | 0666, 0},
};

class NullDevice final : public TableDevice {
 public:
  constexpr NullDevice() : TableDevice("null", kTable) {}

 protected:
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t) override {
    if (chan.qid.path == kNull) return size_t{0};
    memset(buffer, 0, size);
    return size;
  }
  Result<size_t> write_file(Chan& chan, const char*, size_t size, uint64_t) override {
    if (chan.qid.path == kFull && size > 0) return Errno::ENOSPC;
    return size;
  }
};

constinit NullDevice device;

}  // namespace

void null_device_init() {
  device_register(&device);
}
