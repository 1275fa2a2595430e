// ioctl: requests to terminals. Copies the argument of each request from or to the program.
#include "proc/system_call_impl.h"

namespace {

template <typename T>
Result<int64_t> in(Chan& chan, const SystemCall& call) {
  T value{};
  TRY(get_user(call.arguments[2], value));
  TRY(chan.device->ioctl(chan, call.word(1), &value));
  return 0;
}

template <typename T>
Result<int64_t> out(Chan& chan, const SystemCall& call) {
  T value{};
  TRY(chan.device->ioctl(chan, call.word(1), &value));
  TRY(put_user(call.arguments[2], value));
  return 0;
}

// Gives the device the argument itself, as a number.
Result<int64_t> by_value(Chan& chan, const SystemCall& call) {
  int value = call.integer(2);
  TRY(chan.device->ioctl(chan, call.word(1), &value));
  return 0;
}

}  // namespace

Result<int64_t> sys_ioctl(const SystemCall& call) {
  const Ref<Chan> chan = TRY(fd_get(*call.process.fds, call.integer(0)));
  switch (call.word(1)) {
    case ABI_TCGETS:
      return out<abi_termios>(*chan, call);
    case ABI_TCSETS:
    case ABI_TCSETSW:
    case ABI_TCSETSF:
      return in<abi_termios>(*chan, call);
    case ABI_TCGPGRP:
    case ABI_TCGSID:
    case ABI_TCGPTN:
      return out<int>(*chan, call);
    case ABI_TCSPGRP:
    case ABI_TCSPTLCK:
      return in<int>(*chan, call);
    case ABI_TCGWINSZ:
      return out<abi_winsize>(*chan, call);
    case ABI_TCSWINSZ:
      return in<abi_winsize>(*chan, call);
    case ABI_TCSCTTY:
    case ABI_TCNOTTY:
    case ABI_TCFLSH:
    case ABI_TCXONC:
    case ABI_TCSBRK:
      return by_value(*chan, call);
    default:
      return Errno::ENOTTY;
  }
}
