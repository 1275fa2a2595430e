// #uart: the serial ports `0` to `3`, raw, for programs that talk to the host. Only root may open
// them.
//
// A write returns when the port has accepted all bytes, or when a signal comes. One program writes
// at a time, so that lines do not mix. A read blocks until there is a byte. Input is buffered from
// the first open for reading on; while the buffer is full, new bytes are lost. #cons reads the
// input of port 0, which belongs to the console. So `0` can only be written.

#include <algorithm>

#include "core/errstr.h"
#include "core/not_roots.h"
#include "core/spinlock.h"
#include "core/uart.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/slow_write.h"
#include "ns/device.h"

namespace {

constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, 0},  {"0", ABI_S_IFCHR | 0600, 0}, {"1", ABI_S_IFCHR | 0600, 0},
    {"2", ABI_S_IFCHR | 0600, 0}, {"3", ABI_S_IFCHR | 0600, 0},
};

struct Port {
  static constexpr size_t kSize = 1024;

  Spinlock lock{LockRank::kDevice};
  // Under `lock`.
  bool listening GUARDED_BY(lock) = false;
  size_t head GUARDED_BY(lock) = 0, count GUARDED_BY(lock) = 0;
  bool writing GUARDED_BY(lock) = false;  // a task writes; `writers` wait for its end

  WaitQueue readers, writers;
};
constinit Port ports[kUartCount];
// The input of each port, guarded by the port's lock. Bytes of users are no roots.
NOT_ROOTS constinit uint8_t inputs[kUartCount][Port::kSize] = {};

// Stores a received byte, unless the buffer is full. Interrupt context.
void receive(unsigned number, uint8_t byte) {
  Port& port = ports[number];
  Guard guard(port.lock);
  if (port.count < Port::kSize) inputs[number][(port.head + port.count++) % Port::kSize] = byte;
  port.readers.wake_all();
}

class UartDevice final : public TableDevice {
 public:
  constexpr UartDevice() : TableDevice("uart", kTable) {}

  bool seekable() const override { return false; }

 protected:
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t) override {
    if (size == 0) return size_t{0};
    const unsigned number = number_of(chan);
    Port& port = ports[number];
    Guard guard(port.lock);
    if (port.count == 0 && (chan.open_flags & ABI_O_NONBLOCK)) return Errno::EAGAIN;
    TRY(port.readers.wait(port.lock, [&]() REQUIRES(port.lock) { return port.count > 0; }));
    const size_t length = std::min(size, port.count);
    for (size_t i = 0; i < length; ++i)
      buffer[i] = static_cast<char>(inputs[number][(port.head + i) % Port::kSize]);
    port.head = (port.head + length) % Port::kSize;
    port.count -= length;
    return length;
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    const unsigned number = number_of(chan);
    Port& port = ports[number];
    {
      Guard guard(port.lock);
      TRY(port.writers.wait(port.lock, [&]() REQUIRES(port.lock) { return !port.writing; }));
      port.writing = true;
    }
    Result<size_t> written = write_until_signal({buffer, size}, [=](std::string_view piece) {
      return uart_send(number, piece.data(), piece.size());
    });
    Guard guard(port.lock);
    port.writing = false;
    port.writers.wake_one();
    return written;
  }
  uint16_t poll_file(Chan& chan, PollWaiter* waiter) override {
    Port& port = ports[number_of(chan)];
    if (waiter) waiter->wait_on(port.readers);
    Guard guard(port.lock);
    return static_cast<uint16_t>((port.count > 0 ? ABI_POLLIN : 0) | ABI_POLLOUT);
  }
  Result<void> open_file(Chan& chan, uint32_t flags) override {
    const unsigned number = number_of(chan);
    if (!uart_present(number))
      return fail(Errno::ENXIO, "the machine has no serial port %u", number);
    if (!(wanted_by_open(flags) & 4)) return {};
    if (number == 0) return fail(Errno::EBUSY, "serial port 0 is the console: read #cons/cons");
    {
      Guard guard(ports[number].lock);
      if (std::exchange(ports[number].listening, true)) return {};
    }
    if (uart_listen(number, receive)) return {};
    Guard guard(ports[number].lock);
    ports[number].listening = false;
    return Errno::EIO;
  }

 private:
  static unsigned number_of(const Chan& chan) { return static_cast<unsigned>(chan.qid.path - 1); }
};

constinit UartDevice device;

}  // namespace

void uart_device_init() {
  device_register(&device);
}
