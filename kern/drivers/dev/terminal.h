// The line discipline of a terminal: it handles the bytes between the keyboard and the program that
// reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/syscall.h"
#include "core/spinlock.h"
#include "lib/result.h"
#include "proc/job_control.h"
#include "sched/task.h"

class Terminal : public SessionTerminal {
 public:
  static constexpr size_t kLineSize = 1024;

  // Handles a byte from the keyboard. Any context.
  void receive(uint8_t byte) EXCLUDES(lock_);
  void hang_up() override EXCLUDES(lock_);

  // Returns how often the terminal has hung up. A hang-up cuts off all files that are open. At each
  // open the device stores this number with the file, and later passes the stored number as
  // `opening` to the functions below. If the present number differs, the file has been cut off.
  uint32_t opening() EXCLUDES(lock_);
  // Called when a program opens the terminal: may make it the terminal of the program's session.
  void opened(uint32_t flags);
  // Reads input, in canonical mode at most one line. Returns 0 at ^D and after a hang-up. With
  // `nonblock` fails with EAGAIN if there is no input. EIO if job control forbids the read
  // (job_control.h); EINTR. May sleep.
  Result<size_t> read(char* buffer, size_t size, bool nonblock, uint32_t opening) EXCLUDES(lock_);
  // Sends everything, with "\n" as "\r\n" if the terminal's modes say so. A signal ends the write
  // early. Returns the number of bytes sent; fails only if no byte was sent. EIO after a hang-up or
  // if job control forbids the write; EAGAIN with `nonblock`; EINTR. May sleep.
  Result<size_t> write(const char* data, size_t size, bool nonblock, uint32_t opening)
      EXCLUDES(lock_);
  // Implements Device::poll. Returns ABI_POLLIN | ABI_POLLHUP after a hang-up.
  uint16_t poll(uint32_t opening, PollWaiter* waiter) EXCLUDES(lock_);
  // Handles the requests ABI_TC*; ENOTTY for any other request. EIO after a hang-up. A request that
  // changes something can also fail with the errors of job control. `argument` points to kernel
  // memory of the request's type.
  Result<void> ioctl(uint32_t request, void* argument, uint32_t opening) EXCLUDES(lock_);

 protected:
  static constexpr size_t kInputSize = 4096;

  // `line` has room for kLineSize bytes, in memory that is not searched for pointers.
  constexpr explicit Terminal(uint8_t* line) : line_(line) {}
  ~Terminal() = default;

  // Sends bytes to the screen. Bytes for which there is no room() are lost.
  virtual void send(const char* data, size_t size) REQUIRES(lock_) = 0;
  virtual size_t room() const REQUIRES(lock_) { return SIZE_MAX; }
  virtual void discard_output() REQUIRES(lock_) {}
  // Called by a hang-up, which cuts off all open files.
  virtual void files_lost() REQUIRES(lock_) {}

  void resize(const abi_winsize& size) EXCLUDES(lock_);
  // Handles a request that job control has already permitted. ENOTTY if the line discipline does
  // not know the request.
  Result<void> change_or_tell(uint32_t request, void* argument) EXCLUDES(lock_);
  // True if another line might not fit in the input: typists (writers to a pseudo-terminal's
  // master) then wait.
  bool is_full() const REQUIRES(lock_) { return count_ + kLineSize + 1 > kInputSize; }
  void hang_up_files() REQUIRES(lock_);

  Spinlock lock_{LockRank::kConsole};
  // Under `lock_`.
  uint32_t hang_ups_ GUARDED_BY(lock_) = 0;

  // readers_: tasks that wait for input. writers_: tasks that wait for room for output. typists_:
  // writers to the master, which wait for room for input.
  WaitQueue readers_, writers_, typists_;

 private:
  static constexpr uint16_t kEndOfFile = 0x100;  // mark in the input; a read ends here (^D)

  bool has(uint32_t local_mode) const REQUIRES(lock_) { return modes_.lflag & local_mode; }
  bool is(uint8_t byte, int control) const REQUIRES(lock_) {
    return byte != 0 && !literal_ && byte == modes_.cc[control];
  }
  bool is_extended(uint8_t byte, int control) const REQUIRES(lock_) {
    return has(ABI_IEXTEN) && is(byte, control);
  }
  int signal_of(uint8_t byte) const REQUIRES(lock_);
  bool map_input(uint8_t& byte) const REQUIRES(lock_);
  bool controls_flow(uint8_t byte) REQUIRES(lock_);
  void stop_output(bool stop) REQUIRES(lock_);
  void take(uint8_t byte) REQUIRES(lock_);
  bool edit(uint8_t byte) REQUIRES(lock_);
  void add(uint8_t byte) REQUIRES(lock_);
  void erase() REQUIRES(lock_);
  void kill_line(uint8_t byte) REQUIRES(lock_);
  void erase_word() REQUIRES(lock_);
  void reprint() REQUIRES(lock_);
  void finish_line() REQUIRES(lock_);
  void push(uint16_t item) REQUIRES(lock_);
  void echo(uint8_t byte) REQUIRES(lock_);
  void send_cooked(const char* data, size_t size) REQUIRES(lock_);
  bool ready(size_t wanted) const REQUIRES(lock_);
  bool writable() const REQUIRES(lock_) { return !stopped_ && room() >= 2; }  // "\r\n"
  void discard_input() REQUIRES(lock_);
  void drop_marks() REQUIRES(lock_);
  void set_modes(const abi_termios& modes, bool flush) REQUIRES(lock_);
  Result<void> check_write() EXCLUDES(lock_);
  Result<void> wait_for_input(size_t size, uint32_t opening) REQUIRES(lock_);
  size_t take_input(char* buffer, size_t size) REQUIRES(lock_);
  Result<void> flow(int action) REQUIRES(lock_);

  // Under `lock_`.
  abi_termios modes_ GUARDED_BY(lock_) = {
      .iflag = ABI_ICRNL,
      .oflag = ABI_OPOST | ABI_ONLCR,
      .cflag = ABI_B115200 | ABI_CS8 | ABI_CREAD,
      .lflag = ABI_ISIG | ABI_ICANON | ABI_ECHO | ABI_ECHOE | ABI_ECHOK | ABI_ECHOCTL | ABI_ECHOKE |
               ABI_IEXTEN,
      // ^C, ^\, erase, ^U, ^D, VTIME, VMIN, ^Z, VEOL, ^Q, ^S, ^V, ^W, ^R, VEOL2
      .cc = {3, 28, 127, 21, 4, 0, 1, 26, 0, 17, 19, 22, 23, 18, 0},
  };
  abi_winsize size_ GUARDED_BY(lock_) = {.rows = 24, .columns = 80, .x_pixels = 0, .y_pixels = 0};
  bool stopped_ GUARDED_BY(lock_) = false;  // ^S was typed
  bool literal_ GUARDED_BY(lock_) = false;  // ^V was typed
  uint16_t input_[kInputSize] GUARDED_BY(lock_) = {};
  size_t head_ GUARDED_BY(lock_) = 0, count_ GUARDED_BY(lock_) = 0;
  size_t lines_ GUARDED_BY(lock_) = 0;     // number of "\n" and of marks in the input
  uint8_t* const line_ GUARDED_BY(lock_);  // the line being typed, in canonical mode
  size_t line_length_ GUARDED_BY(lock_) = 0;
};
