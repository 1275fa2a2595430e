#include "events.h"

#include <charconv>

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

// Of a line's words.
enum { kTime, kCpu = 2, kPid = 4, kName = 6, kKind = 7, kObject = 9, kSize = 11, kWords };

}  // namespace

void Events::print(const std::string_view* words, std::initializer_list<std::string_view> message) {
  // Seconds to microseconds, as there.
  const std::string_view time = words[kTime].substr(0, words[kTime].find('.') + 7);
  for (const std::string_view part :
       {std::string_view("(b'"), words[kName], std::string_view("', "), words[kPid], std::string_view(", "),
        words[kCpu], std::string_view(", b'....', "), time, std::string_view(", b'")}) {
    text_ += part;
  }
  for (const std::string_view part : message) text_ += part;
  text_ += "')\n";
}

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
  const std::string_view object = words[kObject], size = words[kSize];
  uint64_t address = 0;
  std::from_chars(object.data(), object.data() + object.size(), address, 16);
  if (words[kKind] == "alloc" && count > kSize) {
    print(words, {"alloc entered, size = ", size});
    print(words, {"alloc exited, size = ", size, ", result = ", object});
    sizes_[address] = size;
  } else if (words[kKind] == "free") {
    const auto known = sizes_.find(address);
    print(words, {"free entered, address = ", object, ", size = ", known != sizes_.end() ? known->second : "?"});
    if (known != sizes_.end()) sizes_.erase(known);
  }
}
