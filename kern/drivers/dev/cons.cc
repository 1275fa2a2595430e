// #cons: the console.
//
// `cons` and `console` are one file: the terminal on the first serial port and, if the boot loader
// has set up a screen, on screen and keyboard. Both show the same output, and take input. The
// permissions of this file can be changed (the program mesg does so), but its owner is always root.
// Opening `tty` gives the terminal of the caller's session (ENXIO if the session has none).
// `cmdline` reads as the kernel command line, and `klog` as the last lines of the kernel log.
// `power` takes `off` and `halt`, which both power the machine off, and `reboot`; only root may
// write to it.

#include <atomic>

#include "arch/x86_64/time.h"
#include "core/boot.h"
#include "core/console.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/log_buffer.h"
#include "core/not_roots.h"
#include "core/panic.h"
#include "core/power.h"
#include "core/screen.h"
#include "core/uart.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/keyboard.h"
#include "drivers/dev/terminal.h"
#include "lib/string.h"
#include "ns/device.h"
#include "ns/page_cache.h"

namespace {

constexpr unsigned kPort = 0;

enum File : uint64_t { kCons = 1, kConsole, kTty, kCommandLine, kPower, kLog };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, 0},        {"cons", ABI_S_IFCHR | 0666, 0},
    {"console", ABI_S_IFCHR | 0666, 0}, {"tty", ABI_S_IFCHR | 0666, 0},
    {"cmdline", ABI_S_IFREG | 0444, 0}, {"power", ABI_S_IFREG | 0200, 0},
    {"klog", ABI_S_IFREG | 0444, 0},
};

NOT_ROOTS constinit uint8_t typed_line[Terminal::kLineSize] = {};

class Console final : public Terminal {
 public:
  constexpr Console() : Terminal(typed_line) {}
  uint32_t number() const override { return 5 << 8 | 1; }
  uint32_t owner() const override { return 0; }
  Result<Ref<Chan>> open(uint32_t flags) override;
  void fit_to_screen() {
    const ScreenSize size = screen_size();
    resize({.rows = size.rows, .columns = size.columns, .x_pixels = 0, .y_pixels = 0});
  }

 private:
  void send(const char* data, size_t size) override REQUIRES(lock_) { console_write(data, size); }
  // Never called: the console's first reference is never dropped.
  void end() override { panic("the console has lost its last reference"); }
};
constinit Console terminal;

class ConsDevice final : public TableDevice {
 public:
  constexpr ConsDevice() : TableDevice("cons", kTable) {}

  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override {
    if (chan->qid.path != kTty) return TableDevice::open(std::move(chan), flags, who);
    const Ref<SessionTerminal> own = job_terminal();
    if (!own) return fail(Errno::ENXIO, "the session has no terminal");
    return own->open(flags);
  }
  Result<Ref<Chan>> open_console(uint32_t flags) {
    Ref<Chan> chan = TRY(Chan::create(this, {.path = kCons, .version = 0, .directory = false}));
    TRY(open_file(*chan, flags));
    chan->is_open = true;
    chan->open_flags = flags;
    return chan;
  }

  Result<void> stat(Chan& chan, abi_stat& stat) override {
    TRY(TableDevice::stat(chan, stat));
    if (is_terminal(chan)) stat.mode = ABI_S_IFCHR | mode_.load(std::memory_order_relaxed);
    return {};
  }
  Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                              const Credentials& who) override {
    if (!is_terminal(chan) || change.uid || change.gid)
      return Device::set_attributes(chan, change, who);
    abi_stat now;
    TRY(stat(chan, now));
    AttributeChange allowed = change;
    TRY(check_attributes(now, allowed, who));
    if (allowed.mode) mode_.store(*allowed.mode & 07777, std::memory_order_relaxed);
    return {};
  }
  size_t longest_command(const Chan& chan) const override {
    return chan.qid.path == kPower ? kMaxCommandText : 0;
  }

 protected:
  Result<void> open_file(Chan& chan, uint32_t flags) override {
    if (!is_terminal(chan)) return {};
    chan.qid.version = terminal.opening();
    terminal.opened(flags);
    return {};
  }
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    const bool nonblock = chan.open_flags & ABI_O_NONBLOCK;
    if (is_terminal(chan)) return terminal.read(buffer, size, nonblock, chan.qid.version);
    if (chan.qid.path == kLog) return log_read(buffer, size, offset);
    if (chan.qid.path != kCommandLine) return Errno::EACCES;
    const char* const line = boot_info().command_line;
    const size_t length = strnlen(line, sizeof boot_info().command_line);
    if (offset == length && size > 0) return read_text("\n", buffer, size, 0);
    return read_text({line, length}, buffer, size, offset);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    const bool nonblock = chan.open_flags & ABI_O_NONBLOCK;
    if (is_terminal(chan)) return terminal.write(buffer, size, nonblock, chan.qid.version);
    if (chan.qid.path != kPower) return Errno::EACCES;
    std::string_view text(buffer, size);
    CommandLine line;
    const bool is_known = next_command(text, line) && line.rest.empty() &&
                          (line.word == "off" || line.word == "halt" || line.word == "reboot");
    if (!is_known) return fail(Errno::EINVAL, "power takes: off, halt, reboot");
    page_cache_sync_all();
    if (line.word == "reboot") power_reset();
    klog("power off after %lu ticks of the time stamp counter",
         tsc());  // instructions, under QEMU -icount
    power_off(ExitCode::kOff);
  }
  Result<void> ioctl_file(Chan& chan, uint32_t request, void* argument) override {
    if (!is_terminal(chan)) return Errno::ENOTTY;
    return terminal.ioctl(request, argument, chan.qid.version);
  }
  uint16_t poll_file(Chan& chan, PollWaiter* waiter) override {
    if (!is_terminal(chan)) return ABI_POLLIN | ABI_POLLOUT;
    return terminal.poll(chan.qid.version, waiter);
  }

 private:
  static bool is_terminal(const Chan& chan) {
    return chan.qid.path == kCons || chan.qid.path == kConsole;
  }

  std::atomic<uint32_t> mode_{0666};  // permissions of the terminal
};

constinit ConsDevice device;

Result<Ref<Chan>> Console::open(uint32_t flags) {
  return device.open_console(flags);
}

}  // namespace

void cons_device_init() {
  if (!uart_listen(kPort, [](unsigned, uint8_t byte) { terminal.receive(byte); }))
    klog("#cons: no serial port");
  if (screen_present()) {
    terminal.fit_to_screen();
    if (!keyboard_listen([](uint8_t byte) { terminal.receive(byte); }))
      klog("#cons: no keyboard controller");
  }
  device_register(&device);
}
