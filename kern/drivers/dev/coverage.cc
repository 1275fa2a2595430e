// #coverage: the places of the kernel's code that the system calls of selected tasks have reached
// (sched/coverage.h).
//
//   places   each open file has its own map of places. Takes two commands. With `start` the task
//            that writes the command begins to record in this map; its children do not record.
//            `stop` ends the recording. Reads as 64-bit addresses, each once, in the order in which
//            they were first reached. Only root may open the file
#include "sched/coverage.h"

#ifdef CONFIG_COVERAGE
#include "core/errstr.h"
#include "drivers/dev/devices.h"
#include "ns/device.h"

namespace {

constexpr TableEntry kTable[] = {{"", ABI_S_IFDIR | 0555, 0}, {"places", ABI_S_IFREG | 0600, 0}};

class CoverageDevice final : public TableDevice {
 public:
  constexpr CoverageDevice() : TableDevice("coverage", kTable) {}

  void close(Chan& chan) override { chan.take_kept<CoverageMap>(); }

 protected:
  Result<void> open_file(Chan& chan, uint32_t) override {
    chan.keep(TRY(CoverageMap::create()));
    return {};
  }
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    return map_of(chan).read(buffer, size, offset);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    constexpr const char* kSyntax = "start or stop";
    TRY(check_command_text({buffer, size}, kSyntax));
    std::string_view text(buffer, size);
    CommandLine line;
    if (!next_command(text, line) || !line.rest.empty() ||
        (line.word != "start" && line.word != "stop"))
      return fail(Errno::EINVAL, "expected %s", kSyntax);
    coverage_use(line.word == "start" ? &map_of(chan) : nullptr);
    return size;
  }

 private:
  static CoverageMap& map_of(Chan& chan) { return *static_cast<CoverageMap*>(chan.state); }
};

constinit CoverageDevice device;

}  // namespace

void coverage_device_init() {
  device_register(&device);
}
#endif
