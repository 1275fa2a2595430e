// The texts of the files of #probe.
#pragma once

#include "intern/shared_tables.h"
#include "ns/device.h"
#include "probe/session.h"

// Prints the functions that can be probed.
void probe_print_functions(Text& text);

// A copy of a session's counts. The text is made while it is read, without a lock of the session or
// the tracer. The object keeps the copied stacks from being swept. The owner of the object also
// holds a reference to the session.
class ProbeCountsText final : public TableUser {
 public:
  static Result<ProbeCountsText*> create(ProbeSession& session);  // ENOMEM; may sleep
  static void destroy(ProbeCountsText* text);

  void retain(Retained& retained) override { counts_.retain(retained); }

  // Reads from `offset` on; 0 at the end. One reader at a time. Going back to an earlier offset
  // restarts from the beginning of the text.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  // The longest row has two stacks, with a blank before each address, and the fields of a program.
  static constexpr size_t kPiece = 4096 - 128;
  static constexpr size_t kLongestRow =
      size_t{2} * 17 * kProbeMaxDepth + sizeof(ContextTable::Program::name) +
      sizeof(ContextTable::Program::path) + size_t{2} * kMaxBuildId + 128;
  static_assert(kLongestRow <= kPiece);

  explicit ProbeCountsText(ProbeApart apart)
      : TableUser(Holds::kCopies), counts_(trace_stacks, trace_contexts, apart) {}
  void print_head();
  void print_row(const ProbeCounts::Row& row);
  void print_stack(std::string_view kind, const StackTable::View& stack);
  void print_word(std::string_view key, const char* value);
  void append(std::string_view bytes);

  ProbeCounts counts_;
  ProbeSession::State state_ = {};
  uint32_t number_ = 0;
  uint32_t next_ = 0;      // index of the row that comes after `piece_`
  uint64_t position_ = 0;  // offset of `piece_` in the text
  size_t length_ = 0;      // number of bytes in `piece_`: the head of the text or one row
  char piece_[kPiece];
};

// Formats an event as a line of at most kProbeEventLine bytes. Returns the length of the line.
inline constexpr size_t kProbeEventLine = 512;
size_t probe_format_event(char* line, const ProbeEvent& event);
