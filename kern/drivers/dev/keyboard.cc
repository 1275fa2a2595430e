// The keyboard of a PC, at the first port of an i8042 controller (IBM PS/2 Hardware Interface
// Technical Reference). The controller translates to scan code set 1. Keys come by interrupt 1.
//
// The driver leaves the keyboard itself as the firmware has set it, except that it turns scanning
// on. Nothing waits for ever: a machine without controller answers 0xff, or not at all. A USB
// keyboard works if the firmware emulates an i8042 for it.
#include "drivers/dev/keyboard.h"

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/trap.h"
#include "core/screen.h"
#include "drivers/dev/keyboard_keys.h"
#include "lib/result.h"

namespace {

constexpr unsigned kIrq = 1;
constexpr uint16_t kData = 0x60, kStatus = 0x64, kCommand = 0x64;
constexpr uint8_t kOutputFull = 0x01, kInputFull = 0x02, kFromMouse = 0x20;
constexpr uint8_t kReadConfiguration = 0x20, kWriteConfiguration = 0x60, kDisableMouse = 0xa7,
                  kDisableKeyboard = 0xad, kEnableKeyboard = 0xae;
constexpr uint8_t kKeyboardInterrupt = 0x01, kMouseInterrupt = 0x02, kKeyboardClockOff = 0x10,
                  kMouseClockOff = 0x20, kTranslate = 0x40;
constexpr uint8_t kStartScanning = 0xf4;
// Reads of a port before giving up. A read takes about a microsecond on a PC.
constexpr unsigned kPatience = 50'000;
constexpr unsigned kMostBytes = 64;  // more than any controller holds

constinit Keyboard keyboard;  // used by the interrupt's handler only
void (*receive)(uint8_t byte) = nullptr;

bool wait_until_taken() {
  for (unsigned i = 0; i < kPatience; ++i) {
    if (!(in8(kStatus) & kInputFull)) return true;
    cpu_relax();
  }
  return false;
}

Result<void> put(uint16_t port, uint8_t byte) {
  if (!wait_until_taken()) return Errno::ENODEV;
  out8(port, byte);
  return {};
}

Result<uint8_t> get() {
  for (unsigned i = 0; i < kPatience; ++i) {
    if (in8(kStatus) & kOutputFull) return in8(kData);
    cpu_relax();
  }
  return Errno::ENODEV;
}

Result<void> empty() {
  for (unsigned i = 0; i < kMostBytes; ++i) {
    if (!(in8(kStatus) & kOutputFull)) return {};
    in8(kData);
  }
  return Errno::ENODEV;  // reads as 0xff for ever: there is no controller
}

// Leaves the keyboard turned off.
Result<void> configure() {
  TRY(put(kCommand, kDisableKeyboard));
  TRY(put(kCommand, kDisableMouse));
  TRY(empty());
  TRY(put(kCommand, kReadConfiguration));
  uint8_t configuration = TRY(get());
  configuration |= kKeyboardInterrupt | kMouseClockOff | kTranslate;
  configuration &= static_cast<uint8_t>(~(kMouseInterrupt | kKeyboardClockOff));
  TRY(put(kCommand, kWriteConfiguration));
  return put(kData, configuration);
}

// The keyboard's answers come as scan codes that no key has. A keyboard that is plugged in later
// scans without being told.
Result<void> start() {
  TRY(put(kCommand, kEnableKeyboard));
  return put(kData, kStartScanning);
}

void on_interrupt(TrapFrame&, void*) {
  for (unsigned i = 0; i < kMostBytes; ++i) {
    const uint8_t status = in8(kStatus);
    if (!(status & kOutputFull)) return;
    const uint8_t code = in8(kData);
    if (status & kFromMouse) continue;
    for (const char byte : keyboard.take(code, screen_cursor_keys_send_o()))
      receive(static_cast<uint8_t>(byte));
  }
}

}  // namespace

bool keyboard_listen(void (*take)(uint8_t byte)) {
  if (!acpi_info().has_keyboard_controller || !configure()) return false;
  receive = take;
  // The keyboard is still turned off, so no interrupt is lost.
  return interrupt_register(kIrq, "keyboard", on_interrupt, nullptr) && start();
}
