// Contents of dumps, for tests.
#pragma once

#include <string_view>

#include "abi/tracedump.h"
#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "lib/string.h"
#include "lib/words.h"
#include "trace/dump/open_binary.h"
#include "trace/trace.h"

// Reads the first source of a binary dump, and closes the dump.
inline abi_tracedump_source take_first_source(Result<TraceBinaryDump*> opened) {
  TraceBinaryDump* const dump = opened.take();
  abi_tracedump_source source{};
  const size_t at = sizeof(abi_tracedump_header) + sizeof(abi_tracedump_section);
  EXPECT(dump->read(reinterpret_cast<char*>(&source), sizeof(source), at) == sizeof(source));
  TraceBinaryDump::destroy(dump);
  return source;
}

// Reads a dump of any length to its end, and calls line(text) for each line. A line must be shorter
// than 4096 bytes. Only one call may run at a time.
template <typename Line>
void read_lines(TraceDump* dump, Line line) {
  static char buffer[4096];
  size_t kept = 0;  // bytes of an incomplete line, at the start of `buffer`
  for (uint64_t offset = 0;;) {
    Result<size_t> got = trace_dump_read(dump, buffer + kept, sizeof(buffer) - kept, offset);
    if (!got || *got == 0) break;
    offset += *got;
    std::string_view rest(buffer, kept + *got);
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      line(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    kept = rest.size();
    memmove(buffer, rest.data(), kept);
  }
}

// Returns the number after the first `key` in the text; UINT64_MAX if the text has no `key`.
inline uint64_t number_after(std::string_view text, std::string_view key, unsigned base = 10) {
  uint64_t value = UINT64_MAX;
  const size_t at = text.find(key);
  if (at != std::string_view::npos) {
    text.remove_prefix(at + key.size());
    take_number(text, base, &value);
  }
  return value;
}

// True if the counters in the head of a text dump add up.
inline bool identities_hold(std::string_view head) {
  const auto number = [head](std::string_view key) { return number_after(head, key); };
  return number("seen ") == number(" recorded ") + number(" dropped ") + number(" filtered ") &&
         number(" recorded ") == number(" freed ") + number(" cleared ") + number(" live ");
}

// The text of a dump, in memory that no trace sees.
class DumpText {
 public:
  explicit DumpText(TraceSource source) : text_(static_cast<char*>(trace_copy_alloc(kSize))) {
    Result<TraceDump*> dump = trace_dump_open(source);
    EXPECT(text_ && dump.ok());
    if (!text_ || !dump) return;
    for (;;) {
      Result<size_t> got = trace_dump_read(*dump, text_ + length_, kSize - length_, length_);
      if (!got || *got == 0) break;
      length_ += *got;
    }
    trace_dump_close(*dump);
  }
  ~DumpText() { trace_copy_free(text_, kSize); }
  DumpText(const DumpText&) = delete;
  DumpText& operator=(const DumpText&) = delete;

  std::string_view text() const { return {text_, length_}; }
  bool has(std::string_view what) const { return text().find(what) != std::string_view::npos; }
  size_t count(std::string_view what) const {
    size_t n = 0;
    for (size_t at = text().find(what); at != std::string_view::npos;
         at = text().find(what, at + 1))
      n++;
    return n;
  }
  uint64_t number(std::string_view key) const { return number_after(text(), key); }
  bool identities_hold() const { return ::identities_hold(text()); }

 private:
  static constexpr size_t kSize = 256 * 1024;
  char* text_;
  size_t length_ = 0;
};
