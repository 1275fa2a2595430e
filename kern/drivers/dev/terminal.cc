// The line discipline, after POSIX chapter 11 (General Terminal Interface).
//
// In canonical mode bytes gather in `line_`, where they can be erased, until the end of the line;
// then the line moves to the input, where readers find it. Otherwise bytes go to the input at once.
// ^D moves the line without a line end and leaves a mark, at which a read ends; a mark that comes
// first is an end of file. Control characters are echoed as ^X.
//
// Everything is under one spinlock, which receive() takes in interrupts: it is held for the
// handling of one byte, the transmission of its echo, or the copying of one read. Output is cooked
// in pieces of 256 bytes, so that writers do not hold it for long. Signals are sent after it has
// been dropped, since the process table's lock ranks above it.

#include "drivers/dev/terminal.h"

#include <algorithm>

#include "arch/x86_64/time.h"
#include "drivers/dev/slow_write.h"
#include "lib/string.h"

namespace {

constexpr uint64_t kDecisecond = 100'000'000;

bool control(uint8_t byte) {
  return byte < 32 || byte == 127;
}

}  // namespace

int Terminal::signal_of(uint8_t byte) const {
  if (!has(ABI_ISIG)) return 0;
  if (is(byte, ABI_VINTR)) return ABI_SIGINT;
  if (is(byte, ABI_VQUIT)) return ABI_SIGQUIT;
  if (is(byte, ABI_VSUSP)) return ABI_SIGTSTP;
  return 0;
}

void Terminal::receive(uint8_t byte) {
  int signal = 0;
  ForegroundJob job;
  {
    Guard guard(lock_);
    if (byte == '\r' && (modes_.iflag & ABI_ICRNL)) byte = '\n';
    signal = signal_of(byte);
    if (signal) {
      line_length_ = count_ = lines_ = 0;
      echo(byte);
      job = foreground_;
    } else if (has(ABI_ICANON)) {
      edit(byte);
    } else {
      if (has(ABI_ECHO)) echo(byte);
      push(byte);
      readers_.wake_all();
    }
  }
  if (signal) job_signal(job, signal);
}

// A byte in canonical mode.
void Terminal::edit(uint8_t byte) {
  if (is(byte, ABI_VERASE) || byte == '\b') {
    erase();
  } else if (is(byte, ABI_VKILL)) {
    while (line_length_ > 0) erase();
  } else if (is(byte, ABI_VEOF)) {
    finish_line();
    push(kEndOfFile);
    readers_.wake_all();
  } else if (byte == '\n') {
    echo(byte);
    line_[line_length_++] = byte;
    finish_line();
    readers_.wake_all();
  } else if (line_length_ < kLineSize - 1) {  // one place stays for the line end
    echo(byte);
    line_[line_length_++] = byte;
  } else if (has(ABI_ECHO)) {
    send_("\a", 1);
  }
}

void Terminal::erase() {
  if (line_length_ == 0) return;
  const uint8_t byte = line_[--line_length_];
  if (!has(ABI_ECHO) || !has(ABI_ECHOE)) return;
  send_("\b \b", 3);
  if (control(byte) && byte != '\t') send_("\b \b", 3);
}

void Terminal::finish_line() {
  for (size_t i = 0; i < line_length_; ++i) push(line_[i]);
  line_length_ = 0;
}

// Into the input; what does not fit is lost, as on any terminal.
void Terminal::push(uint16_t item) {
  if (count_ == kInputSize) return;
  input_[(head_ + count_++) % kInputSize] = item;
  if (item == '\n' || item == kEndOfFile) ++lines_;
}

void Terminal::echo(uint8_t byte) {
  if (!has(ABI_ECHO)) return;
  const char plain = static_cast<char>(byte);
  if (!control(byte) || byte == '\n' || byte == '\t') {
    send_cooked(&plain, 1);
    return;
  }
  const char shown[2] = {'^', static_cast<char>(byte ^ 0x40)};
  send_(shown, 2);
}

// At most kWritePiece bytes.
void Terminal::send_cooked(const char* data, size_t size) {
  if (!(modes_.oflag & ABI_OPOST) || !(modes_.oflag & ABI_ONLCR)) {
    send_(data, size);
    return;
  }
  char cooked[2 * kWritePiece];
  size_t length = 0;
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') cooked[length++] = '\r';
    cooked[length++] = data[i];
  }
  send_(cooked, length);
}

size_t Terminal::write(const char* data, size_t size) {
  return write_until_signal({data, size}, [this](std::string_view piece) {
    Guard guard(lock_);
    send_cooked(piece.data(), piece.size());
  });
}

bool Terminal::ready(size_t wanted) const {
  if (has(ABI_ICANON)) return lines_ > 0 || count_ == kInputSize;
  return count_ >= wanted;
}

ForegroundJob Terminal::foreground() {
  Guard guard(lock_);
  return foreground_;
}

uint16_t Terminal::poll(PollWaiter* waiter) {
  if (waiter) waiter->wait_on(readers_);
  Guard guard(lock_);
  return static_cast<uint16_t>((ready(1) ? ABI_POLLIN : 0) | ABI_POLLOUT);
}

// Waits as the modes say; the input may still be empty afterwards when a time has passed.
Result<void> Terminal::wait_for_input(size_t size) {
  if (has(ABI_ICANON))
    return readers_.wait(lock_, [&]() NO_THREAD_SAFETY_ANALYSIS { return ready(1); });
  const size_t wanted = std::min<size_t>(modes_.cc[ABI_VMIN], std::max<size_t>(size, 1));
  const Nanoseconds patience{modes_.cc[ABI_VTIME] * kDecisecond};
  if (wanted > 0) TRY(readers_.wait(lock_, [&]() NO_THREAD_SAFETY_ANALYSIS { return ready(1); }));
  if (ready(std::max<size_t>(wanted, 1))) return {};
  if (wanted > 0 && patience.value == 0)
    return readers_.wait(lock_, [&]() NO_THREAD_SAFETY_ANALYSIS { return ready(wanted); });
  if (patience.value == 0) return {};
  Result<void> waited = readers_.wait(
      lock_, [&]() NO_THREAD_SAFETY_ANALYSIS { return ready(std::max<size_t>(wanted, 1)); },
      monotonic_now() + patience);
  if (!waited && waited.error() != Errno::ETIMEDOUT) return waited;
  return {};
}

Result<size_t> Terminal::read(char* buffer, size_t size, bool nonblock) {
  if (size == 0) return size_t{0};
  Guard guard(lock_);
  if (nonblock && !ready(1)) return Errno::EAGAIN;
  TRY(wait_for_input(size));
  const bool canonical = has(ABI_ICANON);
  size_t done = 0;
  while (count_ > 0) {
    const uint16_t item = input_[head_];
    // After a full buffer only a mark is taken along, so that it does not look like an end of file
    // to the next read.
    if (done == size && item != kEndOfFile) break;
    head_ = (head_ + 1) % kInputSize;
    --count_;
    const bool line_end = item == '\n' || item == kEndOfFile;
    if (line_end) --lines_;
    if (item != kEndOfFile) buffer[done++] = static_cast<char>(item);
    if (line_end && canonical) break;
  }
  return done;
}

void Terminal::set_modes(const abi_termios& modes, bool flush) {
  modes_ = modes;
  if (flush) line_length_ = count_ = lines_ = 0;
  if (!has(ABI_ICANON)) finish_line();
  readers_.wake_all();
}

Result<void> Terminal::set_foreground(int group) {
  if (group <= 0) return Errno::EINVAL;
  const MutexGuard one_at_a_time(foreground_lock_);
  const ForegroundJob job = TRY(job_to_foreground(foreground(), static_cast<uint32_t>(group)));
  Guard guard(lock_);
  foreground_ = job;
  return {};
}

Result<void> Terminal::ioctl(uint32_t request, void* argument) {
  if (request == ABI_TCSPGRP) {
    int group;
    memcpy(&group, argument, sizeof group);
    return set_foreground(group);
  }
  if (request == ABI_TCSETS || request == ABI_TCSETSW || request == ABI_TCSETSF)
    TRY(job_check_modes(foreground()));
  Guard guard(lock_);
  switch (request) {
    case ABI_TCGETS:
      memcpy(argument, &modes_, sizeof modes_);
      return {};
    case ABI_TCSETS:
    case ABI_TCSETSW:
    case ABI_TCSETSF: {
      abi_termios modes;
      memcpy(&modes, argument, sizeof modes);
      set_modes(modes, request == ABI_TCSETSF);
      return {};
    }
    case ABI_TCGPGRP: {
      const int group = static_cast<int>(foreground_.group);
      memcpy(argument, &group, sizeof group);
      return {};
    }
    case ABI_TCGWINSZ: {
      const abi_winsize size = {.rows = 24, .columns = 80, .x_pixels = 0, .y_pixels = 0};
      memcpy(argument, &size, sizeof size);
      return {};
    }
    default:
      return Errno::ENOTTY;
  }
}
