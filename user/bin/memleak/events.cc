#include "events.h"

#include <charconv>
#include <iterator>

const std::string& Events::add(std::string_view piece) {
  text_.clear();
  rest_ += piece;
  std::size_t start = 0;
  for (std::size_t end; (end = rest_.find('\n', start)) != rest_.npos; start = end + 1) {
    line(std::string_view(rest_).substr(start, end - start));
  }
  rest_.erase(0, start);
  return text_;
}

namespace {

// Indices of the words in a line of `events`.
enum { kTime, kCpu = 2, kPid = 4, kName = 6, kKind = 7, kObject = 9, kSize = 11, kWords };

uint64_t number_in(std::string_view text, int base) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

}  // namespace

// Appends the text for a line of `events`. There are three forms:
// 12.345678901 cpu 0 pid 12 name sh alloc malloc 4a0010 size 64
// 12.345679904 cpu 0 pid 12 name sh free free 4a0010
// lost 12
void Events::line(std::string_view text) {
  std::string_view words[kWords];
  std::size_t count = 0;
  while (!text.empty() && count < kWords) {
    const std::size_t end = text.find(' ');
    words[count++] = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  if (count == 2 && words[0] == "lost") {
    text_ += "lost ";
    text_ += words[1];
    text_ += " events\n";
    return;
  }
  if (count <= kObject) return;
  // As in bcc's memleak, seconds have six digits after the point.
  heading_ = "(b'";
  heading_ += words[kName];
  heading_ += "', ";
  heading_ += words[kPid];
  heading_ += ", ";
  heading_ += words[kCpu];
  heading_ += ", b'....', ";
  heading_ += words[kTime].substr(0, words[kTime].find('.') + 7);
  heading_ += ", b'";
  const std::string_view object = words[kObject], size = words[kSize];
  const uint64_t address = number_in(object, 16);
  if (words[kKind] == "alloc" && count > kSize) {
    text_ += heading_;
    text_ += "alloc entered, size = ";
    text_ += size;
    text_ += "')\n";
    text_ += heading_;
    text_ += "alloc exited, size = ";
    text_ += size;
    text_ += ", result = ";
    text_ += object;
    text_ += "')\n";
    sizes_[address] = number_in(size, 10);
  } else if (words[kKind] == "free") {
    text_ += heading_;
    text_ += "free entered, address = ";
    text_ += object;
    text_ += ", size = ";
    if (const auto known = sizes_.find(address); known != sizes_.end()) {
      char digits[24];
      text_.append(digits, std::to_chars(digits, std::end(digits), known->second).ptr);
      sizes_.erase(known);
    } else {
      text_ += '?';
    }
    text_ += "')\n";
  }
}
