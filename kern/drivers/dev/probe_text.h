// What the files of #probe say, as text.
#pragma once

#include "device.h"
#include "src/trace/probe_counts.h"
#include "src/trace/probe_session.h"

// The functions that can be probed.
void probe_print_functions(Text& text);

// What a session has counted, at the moment when it is made. As text that may be more than there is memory (with all functions probed a
// million stacks of 500 bytes): what is kept are the rows, and lines are made when they are read. Lives no longer than the session.
class ProbeCountsText {
 public:
  // ENOMEM.
  static Result<ProbeCountsText*> create(ProbeSession& session);
  static void destroy(ProbeCountsText* text);
  // For Device::read, by one at a time. ENOMEM. Fast if each read goes on where the one before ended.
  Result<size_t> read(char* buffer, size_t size, uint64_t offset);

 private:
  explicit ProbeCountsText(ProbeSession& session)
      : counts_(trace_stacks, trace_contexts, session.tells_processes_apart()), number_(session.number()) {}
  void print_head();
  void print_row(const ProbeCounts::Row& row);
  Result<void> next_piece();

  ProbeCounts counts_;
  const uint32_t number_;
  ProbeSession::State state_ = {};
  // The piece that has been made last.
  Text* piece_ = nullptr;
  uint64_t piece_begin_ = 0;  // its offset in the file
  uint32_t next_row_ = 0;     // the first that is not in it, nor before it
};

// An event, as a line; fits in kProbeEventLine bytes. The length.
inline constexpr size_t kProbeEventLine = 512;
size_t probe_format_event(char* line, const ProbeEvent& event);
