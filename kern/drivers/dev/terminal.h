// The line discipline of a terminal: what happens to bytes between the keyboard and the program
// that reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/syscall.h"
#include "core/spinlock.h"
#include "lib/result.h"
#include "proc/job_control.h"
#include "sched/task.h"

class Terminal {
 public:
  // `send` transmits bytes to the screen; any context.
  constexpr explicit Terminal(void (*send)(const char* data, size_t size)) : send_(send) {}

  // A byte from the keyboard. Interrupt context.
  void receive(uint8_t byte) EXCLUDES(lock_);

  // The process group in the foreground.
  ForegroundJob foreground() EXCLUDES(lock_);
  // What a program reads: in canonical mode at most one line; 0 at ^D. EINTR, EAGAIN with
  // `nonblock`. May sleep.
  Result<size_t> read(char* buffer, size_t size, bool nonblock) EXCLUDES(lock_);
  // Sends all, with "\n" as "\r\n" when the terminal's modes say so, or what is done when a signal
  // comes, but a piece in any case; how much.
  size_t write(const char* data, size_t size) EXCLUDES(lock_);
  // As Device::poll.
  uint16_t poll(PollWaiter* waiter) EXCLUDES(lock_);
  // ABI_TC*. ENOTTY for other requests, and what job control says to those that change something.
  // The argument is kernel memory of the request's type.
  Result<void> ioctl(uint32_t request, void* argument) EXCLUDES(lock_);

 private:
  static constexpr size_t kInputSize = 4096, kLineSize = 1024;
  static constexpr uint16_t kEndOfFile = 0x100;  // in the input, where ^D was typed

  bool has(uint32_t local_mode) const REQUIRES(lock_) { return modes_.lflag & local_mode; }
  bool is(uint8_t byte, int control) const REQUIRES(lock_) {
    return byte != 0 && byte == modes_.cc[control];
  }
  int signal_of(uint8_t byte) const REQUIRES(lock_);
  void edit(uint8_t byte) REQUIRES(lock_);
  void erase() REQUIRES(lock_);
  void finish_line() REQUIRES(lock_);
  void push(uint16_t item) REQUIRES(lock_);
  void echo(uint8_t byte) REQUIRES(lock_);
  void send_cooked(const char* data, size_t size) REQUIRES(lock_);
  bool ready(size_t wanted) const REQUIRES(lock_);
  void set_modes(const abi_termios& modes, bool flush) REQUIRES(lock_);
  Result<void> wait_for_input(size_t size) REQUIRES(lock_);
  Result<void> set_foreground(int group) EXCLUDES(lock_);

  void (*const send_)(const char* data, size_t size);
  Spinlock lock_{LockRank::kConsole};
  // Under `lock_`.
  abi_termios modes_ GUARDED_BY(lock_) = {
      .iflag = ABI_ICRNL,
      .oflag = ABI_OPOST | ABI_ONLCR,
      .cflag = 0,
      .lflag = ABI_ISIG | ABI_ICANON | ABI_ECHO | ABI_ECHOE,
      // ^C, ^\, erase, ^U, ^D, VTIME, VMIN, ^Z
      .cc = {3, 28, 127, 21, 4, 0, 1, 26},
  };
  ForegroundJob foreground_ GUARDED_BY(lock_);
  uint16_t input_[kInputSize] GUARDED_BY(lock_) = {};
  size_t head_ GUARDED_BY(lock_) = 0, count_ GUARDED_BY(lock_) = 0;
  size_t lines_ GUARDED_BY(lock_) = 0;              // line ends and ends of file in the input
  uint8_t line_[kLineSize] GUARDED_BY(lock_) = {};  // being typed, in canonical mode
  size_t line_length_ GUARDED_BY(lock_) = 0;

  WaitQueue readers_;
  Mutex foreground_lock_{LockRank::kDeviceMutex};  // one at a time changes foreground_
};
