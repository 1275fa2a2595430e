#include "tool/probe_session.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

namespace {

constexpr const char* kClone = "#probe/clone";

// strerror has the kernel's error string, which the next call takes away.
[[noreturn]] void failed(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace

ProbeSession::ProbeSession() : control_(open(kClone, O_RDWR | O_CLOEXEC)) {
  if (control_ < 0) failed(kClone);
  char text[16];
  const ssize_t got = read(control_, text, sizeof(text));
  if (got > 0 && std::from_chars(text, text + got, number_).ec == std::errc()) return;
  const int error = errno;
  close(control_);
  if (got >= 0) throw std::runtime_error(std::string(kClone) + ": it gives no number");
  errno = error;
  failed(kClone);
}

ProbeSession::~ProbeSession() {
  close(control_);
}

void ProbeSession::command(std::string_view lines) const {
  ssize_t written;
  do {
    written = write(control_, lines.data(), lines.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) failed(file("ctl"));
}

std::string ProbeSession::file(std::string_view name) const {
  return "#probe/" + std::to_string(number_) + "/" + std::string(name);
}
