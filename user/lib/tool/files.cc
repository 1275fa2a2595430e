#include "tool/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(open(path.c_str(), flags | O_CLOEXEC)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// Called right after the failed system call: strerror appends the kernel's reason for the last
// failure.
[[noreturn]] void failed(const std::string& path) {
  throw std::runtime_error(path + ": " + std::strerror(errno));
}

}  // namespace

std::string read_file(const std::string& path) {
  constexpr std::size_t kPiece = 64 * 1024;
  const Descriptor file(path, O_RDONLY);
  if (file.number() < 0) failed(path);
  std::string text;
  for (;;) {
    const std::size_t used = text.size();
    if (text.capacity() < used + kPiece) text.reserve(2 * used + kPiece);
    text.resize(used + kPiece);
    const ssize_t got = read(file.number(), text.data() + used, kPiece);
    if (got < 0 && errno != EINTR) failed(path);
    text.resize(used + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got == 0) return text;
  }
}

void read_lines(const std::string& path, const std::function<void(std::string_view)>& line) {
  read_lines_while(path, [&](std::string_view text) {
    line(text);
    return true;
  });
}

void read_lines_while(const std::string& path, const std::function<bool(std::string_view)>& line) {
  constexpr std::size_t kPiece = 64 * 1024;
  const Descriptor file(path, O_RDONLY);
  if (file.number() < 0) failed(path);
  std::string text;  // the unfinished line of the previous read, then the bytes of this one
  for (;;) {
    const std::size_t left = text.size();
    text.resize(left + kPiece);
    const ssize_t got = read(file.number(), text.data() + left, kPiece);
    if (got < 0 && errno != EINTR) failed(path);
    text.resize(left + (got > 0 ? static_cast<std::size_t>(got) : 0));
    std::size_t start = 0;
    for (std::size_t end; (end = text.find('\n', std::max(start, left))) != text.npos;
         start = end + 1) {
      if (!line(std::string_view(text).substr(start, end - start))) return;
    }
    text.erase(0, start);
    if (got == 0) break;
  }
  if (!text.empty()) line(text);
}

int write_command(const std::string& path, std::string_view text) {
  const Descriptor file(path, O_WRONLY);
  if (file.number() < 0) return errno;
  ssize_t written;
  do {
    written = write(file.number(), text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  return written < 0 ? errno : 0;
}
