#include "events.h"

#include <charconv>
#include <iterator>
#include <sstream>
#include <vector>

void Events::add(std::string_view piece) {
  rest_ += piece;
  std::size_t start = 0;
  for (std::size_t end; (end = rest_.find('\n', start)) != rest_.npos; start = end + 1) {
    line(std::string_view(rest_).substr(start, end - start));
  }
  rest_.erase(0, start);
}

// 12.345678901 cpu 0 pid 12 name sh alloc malloc 4a0010 size 64
// 12.345679904 cpu 0 pid 12 name sh free free 4a0010
// lost 12
void Events::line(std::string_view text) {
  std::istringstream in{std::string(text)};
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  if (words.size() == 2 && words[0] == "lost") {
    out_ << "lost " << words[1] << " events\n";
    return;
  }
  enum { kTime, kCpu = 2, kPid = 4, kName = 6, kKind, kFunction, kObject, kSize = 11 };
  if (words.size() <= kObject) return;
  uint64_t object = 0;
  std::from_chars(words[kObject].data(), words[kObject].data() + words[kObject].size(), object, 16);
  // To microseconds, as there.
  const std::string time = words[kTime].substr(0, words[kTime].find('.') + 7);
  const auto print = [&](const std::string& message) {
    out_ << "(b'" << words[kName] << "', " << words[kPid] << ", " << words[kCpu] << ", b'....', " << time << ", b'" << message
         << "')\n";
  };
  if (words[kKind] == "alloc" && words.size() > kSize) {
    print("alloc entered, size = " + words[kSize]);
    print("alloc exited, size = " + words[kSize] + ", result = " + words[kObject]);
    sizes_[object] = words[kSize];
  } else if (words[kKind] == "free") {
    const auto known = sizes_.find(object);
    print("free entered, address = " + words[kObject] + ", size = " + (known != sizes_.end() ? known->second : "?"));
    if (known != sizes_.end()) sizes_.erase(known);
  }
}
