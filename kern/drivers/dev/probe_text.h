// What the files of #probe say, as text.
#pragma once

#include "ns/device.h"
#include "probe/probe_session.h"
#include "store/shared_tables.h"

// The functions that can be probed.
void probe_print_functions(Text& text);

// What a session has counted, copied when it is made; its text is made while it is read, without a
// lock of the session or the tracer. It holds the numbers of stacks in the copy. Whoever has the
// text holds the session too.
class ProbeCountsText final : public StoreHolder {
 public:
  static Result<ProbeCountsText*> create(ProbeSession& session);  // ENOMEM; may sleep
  static void destroy(ProbeCountsText* text);

  void mark(StoreMark& mark) override { counts_.mark(mark); }

  // Bytes of the text from `offset` on; 0 at its end. By one at a time. Reading again from an
  // earlier place goes through the text from the start.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  // The longest row has two stacks of addresses, each with a blank, and what there is of a program.
  static constexpr size_t kPiece = 4096 - 128;
  static constexpr size_t kLongestRow =
      size_t{2} * 17 * kProbeMaxDepth + sizeof(ContextTable::Program::name) +
      sizeof(ContextTable::Program::path) + size_t{2} * kMaxBuildId + 128;
  static_assert(kLongestRow <= kPiece);

  explicit ProbeCountsText(ProbeApart apart)
      : StoreHolder(Holds::kCopies), counts_(trace_stacks, trace_contexts, apart) {}
  void print_head();
  void print_row(const ProbeCounts::Row& row);
  void print_stack(std::string_view kind, const StackTable::View& stack);
  void print_word(std::string_view key, const char* value);
  void append(std::string_view bytes);

  ProbeCounts counts_;
  ProbeSession::State state_ = {};
  uint32_t number_ = 0;
  uint32_t next_ = 0;      // row behind the piece
  uint64_t position_ = 0;  // of the piece in the text
  size_t length_ = 0;      // of the piece: the head or a row
  char piece_[kPiece];
};

// An event, as a line; fits in kProbeEventLine bytes. The length.
inline constexpr size_t kProbeEventLine = 512;
size_t probe_format_event(char* line, const ProbeEvent& event);
