#include "probe/session.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace {

constexpr const char* kClone = "#probe/clone";
constexpr std::size_t kMaxWrite = 4096;  // bytes that a control file takes at once

// Called right after the failed call: strerror appends the kernel's reason for the last failure.
[[noreturn]] void failed(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

void write_all(int file, const std::string& text) {
  ssize_t written;
  do {
    written = write(file, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) failed("probes");
}

}  // namespace

ProbeSession::ProbeSession() : ctl_(open(kClone, O_RDWR | O_CLOEXEC)) {
  if (ctl_ < 0 && (errno == EACCES || errno == EPERM))
    throw std::runtime_error("only root can put probes on functions");
  if (ctl_ < 0) failed(kClone);
  char number[32];
  const ssize_t size = read(ctl_, number, sizeof(number));
  if (size <= 0) {
    const int error = size < 0 ? errno : EIO;
    close(ctl_);
    throw std::runtime_error(std::string(kClone) + ": " + std::strerror(error));
  }
  const std::string_view text(number, static_cast<std::size_t>(size));
  folder_ = "#probe/" + std::string(text.substr(0, text.find_first_not_of("0123456789")));
}

ProbeSession::~ProbeSession() {
  close(ctl_);
}

void ProbeSession::command(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty() && text.size() + line.size() + 1 > kMaxWrite) {
      write_all(ctl_, text);
      text.clear();
    }
    text += line + "\n";
  }
  if (!text.empty()) write_all(ctl_, text);
}
