// Serial ports: 16550 UARTs at the four usual I/O addresses. Output is polled, so that it works in
// any context, including a panic; input comes by interrupt.
#include "core/uart.h"

#include <algorithm>

#include "arch/x86_64/io.h"
#include "arch/x86_64/trap.h"
#include "core/panic.h"
#include "core/spinlock.h"

namespace {

enum Register : uint16_t {
  kData,
  kInterruptEnable,
  kFifo,
  kLineControl,
  kModemControl,
  kLineStatus,
  kModemStatus,
  kScratch
};
constexpr uint8_t kReceiverReady = 0x01, kTransmitterEmpty = 0x20, kAllSent = 0x40;
constexpr size_t kFifoSize = 16;
constexpr size_t kLongestHold = 256;  // bytes sent under one hold of the lock, with interrupts off
// Reads of the status register before giving up. A port of 115,200 baud sends the bytes of a FIFO
// in about 1,400 reads.
constexpr unsigned kPatience = 1'000'000, kShortPatience = 3'000;

struct Port {
  uint16_t base;
  uint8_t irq;
  const char* name;
  bool present = false;
  void (*receive)(unsigned port, uint8_t byte) = nullptr;
  Spinlock lock{LockRank::kLog};
};

constinit Port ports[kUartCount] = {
    {0x3f8, 4, "uart0"}, {0x2f8, 3, "uart1"}, {0x3e8, 4, "uart2"}, {0x2e8, 3, "uart3"}};

bool wait_for(const Port& port, uint8_t status, unsigned patience = kPatience) {
  for (unsigned i = 0; i < patience; i++) {
    if (in8(port.base + kLineStatus) & status) return true;
    cpu_relax();
  }
  return false;
}

void send(const Port& port, const char* data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (i % kFifoSize == 0) wait_for(port, kTransmitterEmpty);
    out8(port.base + kData, data[i]);
  }
}

// Sends under the port's lock, except in two cases. In an NMI it does not wait for the lock,
// because the NMI may have interrupted the lock's holder. In a panic it takes no lock, because the
// holder may have been stopped. In these cases two lines may mix.
void write_part(Port& port, const char* data, size_t size) {
  if (panicking()) return send(port, data, size);
  if (this_cpu().in_nmi) {
    const TryGuard guard(port.lock);
    return send(port, data, size);
  }
  const Guard guard(port.lock);
  send(port, data, size);
}

void on_interrupt(TrapFrame&, void* argument) {
  const unsigned number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(argument));
  const Port& port = ports[number];
  while (in8(port.base + kLineStatus) & kReceiverReady)
    port.receive(number, in8(port.base + kData));
}

}  // namespace

void uart_early_init() {
  for (Port& port : ports) {
    out8(port.base + kScratch, 0x5a);
    if (in8(port.base + kScratch) != 0x5a) continue;
    out8(port.base + kInterruptEnable, 0);
    out8(port.base + kLineControl, 0x80);  // divisor: 115,200 baud
    out8(port.base + kData, 1);
    out8(port.base + kInterruptEnable, 0);
    out8(port.base + kLineControl, 0x03);  // 8 bits, no parity, one stop bit
    out8(port.base + kFifo, 0x07);         // FIFOs on and cleared, interrupt at each byte
    out8(port.base + kModemControl, 0x0b);
    port.present = true;
  }
}

bool uart_present(unsigned port) {
  return port < kUartCount && ports[port].present;
}

void uart_write(unsigned number, const char* data, size_t size) {
  if (!uart_present(number)) return;
  Port& port = ports[number];
  while (size > 0) {
    const size_t part = size < kLongestHold ? size : kLongestHold;
    write_part(port, data, part);
    data += part;
    size -= part;
  }
}

size_t uart_send(unsigned number, const char* data, size_t size) {
  Port& port = ports[number];
  size_t done = 0;
  while (done < size) {
    const Guard guard(port.lock);
    if (!wait_for(port, kTransmitterEmpty, kShortPatience)) break;
    const size_t end = done + std::min(size - done, kFifoSize);
    while (done < end) out8(port.base + kData, data[done++]);
  }
  return done;
}

bool uart_listen(unsigned number, void (*receive)(unsigned port, uint8_t byte)) {
  if (!uart_present(number)) return false;
  Port& port = ports[number];
  port.receive = receive;
  if (!interrupt_register(port.irq, port.name, on_interrupt,
                          reinterpret_cast<void*>(uintptr_t{number})))
    return false;
  out8(port.base + kInterruptEnable, 0x01);
  return true;
}

void uart_drain() {
  for (const Port& port : ports) {
    if (port.present) wait_for(port, kAllSent);
  }
}
