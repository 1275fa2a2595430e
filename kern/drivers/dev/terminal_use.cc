// The operations of programs on a terminal: read, write, poll and ioctl. terminal.cc explains the
// line discipline.

#include <algorithm>

#include "arch/x86_64/time.h"
#include "drivers/dev/slow_write.h"
#include "drivers/dev/terminal.h"
#include "lib/string.h"

namespace {

constexpr uint64_t kDecisecond = 100'000'000;

// Copies the argument of a request from kernel memory. T is the type of the request's argument.
template <typename T>
T argument_of(const void* argument) {
  T value;
  memcpy(&value, argument, sizeof value);
  return value;
}
template <typename T>
Result<void> answer(void* argument, const T& value) {
  memcpy(argument, &value, sizeof value);
  return {};
}

}  // namespace

uint32_t Terminal::opening() {
  Guard guard(lock_);
  return hang_ups_;
}

void Terminal::opened(uint32_t flags) {
  if ((flags & ABI_O_NOCTTY) || !(wanted_by_open(flags) & 4) || !current_process()) return;
  static_cast<void>(job_acquire(*this, Steal::kNo));
}

// Waits for as much input as the modes require. Succeeds after a timeout (VTIME), too; the input
// may then be empty.
Result<void> Terminal::wait_for_input(size_t size, uint32_t opening) {
  const auto due = [this, opening](size_t wanted)
                       REQUIRES(lock_) { return ready(wanted) || hang_ups_ != opening; };
  const auto wait_for = [&](size_t wanted) REQUIRES(lock_) {
    return readers_.wait(lock_, [&]() REQUIRES(lock_) { return due(wanted); });
  };
  if (has(ABI_ICANON)) return wait_for(1);
  const size_t wanted = std::min<size_t>(modes_.cc[ABI_VMIN], std::max<size_t>(size, 1));
  const Nanoseconds patience{modes_.cc[ABI_VTIME] * kDecisecond};
  if (patience.value == 0) return wanted > 0 ? wait_for(wanted) : Result<void>();
  if (wanted > 0) TRY(wait_for(1));
  // VTIME limits the time between two bytes. If VMIN is 0, VTIME limits the time until the first
  // byte instead.
  while (!due(std::max<size_t>(wanted, 1))) {
    const size_t before = count_;
    const Result<void> waited = readers_.wait(
        lock_, [&]() REQUIRES(lock_) { return count_ != before || hang_ups_ != opening; },
        monotonic_now() + patience);
    if (!waited && waited.error() == Errno::ETIMEDOUT) return {};
    TRY(Result<void>(waited));
  }
  return {};
}

Result<size_t> Terminal::read(char* buffer, size_t size, bool nonblock, uint32_t opening) {
  if (size == 0) return size_t{0};
  TRY(job_check_read(*this));
  Guard guard(lock_);
  for (;;) {
    if (hang_ups_ != opening) return size_t{0};
    if (nonblock && !ready(1)) return Errno::EAGAIN;
    TRY(wait_for_input(size, opening));
    if (hang_ups_ != opening) return size_t{0};
    // Another reader may have taken the input, or ^C may have discarded it.
    const bool may_be_empty = !has(ABI_ICANON) && (modes_.cc[ABI_VMIN] == 0);
    if (count_ == 0 && !may_be_empty) continue;
    return take_input(buffer, size);
  }
}

Result<void> Terminal::check_write() {
  {
    Guard guard(lock_);
    if (!has(ABI_TOSTOP)) return {};
  }
  return job_check_write(*this);
}

Result<size_t> Terminal::write(const char* data, size_t size, bool nonblock, uint32_t opening) {
  TRY(check_write());
  size_t done = 0;
  while (done < size && (done == 0 || !current_task()->interrupted)) {
    Guard guard(lock_);
    const auto due = [this, opening]()
                         REQUIRES(lock_) { return writable() || hang_ups_ != opening; };
    const Result<void> waited = due()      ? Result<void>()
                                : nonblock ? Result<void>(Errno::EAGAIN)
                                           : writers_.wait(lock_, due);
    const bool lost = hang_ups_ != opening;
    if (!waited || lost) {
      if (done > 0) break;
      return lost ? Errno::EIO : waited.error();
    }
    const size_t piece = std::min({size - done, kWritePiece, room() / 2});
    send_cooked(data + done, piece);
    done += piece;
  }
  return done;
}

uint16_t Terminal::poll(uint32_t opening, PollWaiter* waiter) {
  if (waiter) {
    waiter->wait_on(readers_);
    waiter->wait_on(writers_);
  }
  Guard guard(lock_);
  if (hang_ups_ != opening) return ABI_POLLIN | ABI_POLLHUP;
  return static_cast<uint16_t>((ready(1) ? ABI_POLLIN : 0) | (writable() ? ABI_POLLOUT : 0));
}

Result<void> Terminal::flow(int action) {
  constexpr int kStop = 0, kGoOn = 1, kSendStop = 2, kSendStart = 3;
  switch (action) {
    case kStop:
    case kGoOn:
      stop_output(action == kStop);
      return {};
    case kSendStop:
    case kSendStart: {
      const char byte = static_cast<char>(modes_.cc[action == kSendStop ? ABI_VSTOP : ABI_VSTART]);
      if (byte != 0) send(&byte, 1);
      return {};
    }
    default:
      return Errno::EINVAL;
  }
}

void Terminal::resize(const abi_winsize& size) {
  {
    Guard guard(lock_);
    if (memcmp(&size, &size_, sizeof size) == 0) return;
    size_ = size;
  }
  job_resized(*this);
}

Result<void> Terminal::change_or_tell(uint32_t request, void* argument) {
  if (request == ABI_TCSWINSZ) {
    resize(argument_of<abi_winsize>(argument));
    return {};
  }
  Guard guard(lock_);
  switch (request) {
    case ABI_TCGETS:
      return answer(argument, modes_);
    case ABI_TCSETS:
    case ABI_TCSETSW:
    case ABI_TCSETSF:
      set_modes(argument_of<abi_termios>(argument), request == ABI_TCSETSF);
      return {};
    case ABI_TCGWINSZ:
      return answer(argument, size_);
    case ABI_TCFLSH: {
      const int what = argument_of<int>(argument);
      if (what < 0 || what > 2) return Errno::EINVAL;
      if (what != 1) discard_input();
      if (what != 0) discard_output();
      return {};
    }
    case ABI_TCXONC:
      return flow(argument_of<int>(argument));
    case ABI_TCSBRK:  // nothing to wait for: all output has been sent
      return {};
    default:
      return Errno::ENOTTY;
  }
}

Result<void> Terminal::ioctl(uint32_t request, void* argument, uint32_t opening) {
  if (this->opening() != opening) return Errno::EIO;
  switch (request) {
    case ABI_TCGPGRP:
      return answer(argument, static_cast<int>(TRY(job_foreground(*this))));
    case ABI_TCGSID:
      return answer(argument, static_cast<int>(TRY(job_session(*this))));
    case ABI_TCSPGRP: {
      const int group = argument_of<int>(argument);
      if (group <= 0) return Errno::EINVAL;
      return job_set_foreground(*this, static_cast<uint32_t>(group));
    }
    case ABI_TCSCTTY:
      return job_acquire(*this, argument_of<int>(argument) == 1 ? Steal::kYes : Steal::kNo);
    case ABI_TCNOTTY:
      return job_leave(*this);
    case ABI_TCGETS:
    case ABI_TCGWINSZ:
      break;
    default:
      TRY(job_check_modes(*this));
  }
  return change_or_tell(request, argument);
}
