// The text of a dump: a snapshot of a table, grouped by stack.
//
// It is made in passes over the snapshot, in memory that does not grow with the number of records.
// The first pass adds up the groups (trace_groups.h). A further one collects the details of as many
// groups as there is room for (trace_details.h): of all, usually, and then the snapshot is closed
// before anything is read; otherwise those of the next groups are collected when a reader comes to
// them.
//
// Text is made piece by piece while it is read, so that neither symbols nor formatting are ever
// waited for by a hook. Reading again from an earlier place begins again from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/context_table.h"
#include "store/stack_table.h"
#include "trace/dump/ref_places.h"
#include "trace/dump/trace_details.h"
#include "trace/dump/trace_groups.h"
#include "trace/snapshot.h"
#include "trace/trace_options.h"
#include "trace/trace_table.h"

// The first two lines of a dump, and a line of `ctl`.
struct TraceHeader {
  char name[64];
  TraceState state;
  uint64_t object_size;
  bool of_references;              // which have no size
  uint64_t objects;                // that are live, with a record or without
  std::optional<uint32_t> stacks;  // different ones of the live records, where they were counted
  TraceCounters counters;
  uint64_t unattributed;  // live records of stacks for which a dump has no group

  // "kmemtrace NAME state …" and "seen … estimated_objects N", without filters and newline: filters
  // are the last of a line. They return the lengths of the whole texts.
  int format_state(char* buffer, size_t size) const;
  int format_counters(char* buffer, size_t size) const;
};

class TraceText {
 public:
  static constexpr size_t kPiece = 512;
  static constexpr uint32_t kUserStacksShown = 8;  // of each group, those with most bytes
  static constexpr uint32_t kPlacesShown = 8;      // of each group of references
  // Bytes that it works in: of groups, of records, of cells (trace_details.h).
  static constexpr size_t kGroupRoom = 36 * 1024, kRecordRoom = 64 * 1024, kCellRoom = 20 * 1024;
  static constexpr size_t kRoom = kGroupRoom + kRecordRoom + kCellRoom;

  // `memory`: kRoom bytes, aligned to pages. `stacks` and `contexts` must keep their numbers while
  // the text is used.
  TraceText(std::span<std::byte> memory, const StackTable& stacks, const ContextTable& contexts);

  // Of whose snapshot it is; opened and, if it is not closed before, closed by the caller.
  TraceSnapshot& snapshot() { return snapshot_; }
  // The snapshot was opened. Groups its records by stack and sorts the groups. `now` is in coarse
  // milliseconds, not before that moment. May sleep.
  void make(uint64_t now);
  // Whether the snapshot is needed for reading. If not, mark() says which numbers are.
  bool needs_snapshot() const { return collected_ < groups_.size(); }
  // Tells `mark` all numbers of stacks and contexts that a text has which needs no snapshot:
  // mark.stack(), of pairs too, and mark.context(). While it is read, too.
  template <typename Mark>
  void mark(Mark& mark) const;

  // The caller fills in name, state, object size and `objects` before make(), which does the rest.
  TraceHeader header = {};
  // Of references: where they lie, a moment later. There until the text has been read.
  const RefPlaces* places = nullptr;
  bool places_missing = false;  // they were wanted, and there was no memory

  // Bytes of the text from `offset` on; 0 at its end.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  // Of the records of a group, those of all contexts with the same user stack in the same program.
  struct UserStackSum {
    uint64_t bytes;
    uint64_t count;
    uint32_t user_stack;
    uint32_t context;    // the first
    uint32_t processes;  // how many contexts
  };
  enum class Section : uint8_t {
    kHeader,
    kGroup,
    kFrames,
    kAges,
    kMarks,
    kContexts,
    kUserStacks,
    kUserFrames,
    kPlaces,
    kObjects,
    kRest,
    kEnd
  };

  static constexpr size_t kContextText = 80;
  static constexpr size_t kFrameText = 256;
  // Of the line of an object: its words and numbers, with room to spare, and a context.
  static constexpr size_t kObjectLine = 160 + kContextText;
  static_assert(kObjectLine <= kPiece);

  void collect(uint32_t group);
  void collect_user_stacks();
  void add_user_stack(const UserStackSum& sum);
  const TraceGroup& group() const { return groups_[group_]; }
  uint32_t index() const { return group_ - first_collected_; }  // of the group's details

  // The line of a kernel function that a stack's frame is in. Most of a stack's frames were in
  // stacks before it, so lines are kept where they are looked for by the frame.
  struct FrameLine {
    static constexpr size_t kLongest = 62;
    uint64_t frame;
    uint8_t length;  // 0: nothing is kept
    char text[kLongest + 1];
  };
  static constexpr size_t kFrameLines = 64;
  void print_symbol(uint64_t frame);

  // Each makes the next piece of its part in piece_, or goes on to the next part.
  void next_piece();
  void print_header();
  void print_group();
  void print_frame();
  void print_ages();
  void print_marks();
  void print_context();
  void print_user_stack();
  void print_user_frame();
  void print_place();
  void print_object();
  void print_rest();
  // "N bytes in N allocations", "N references".
  void print_amount(uint64_t bytes, uint64_t objects);
  char* put_object(char* to, const TraceRecord& record);
  char* put_tail(char* to, const TraceRecord& record);
  // Valid until the next call; the same context again costs nothing.
  std::string_view context_text(uint32_t context);
  __attribute__((format(printf, 2, 3))) void print(const char* pattern, ...);

  const StackTable& stacks_;
  const ContextTable& contexts_;
  TraceSnapshot snapshot_;
  uint64_t now_ = 0;
  TraceGroups groups_;
  TraceDetails details_;
  uint32_t first_collected_ = 0, collected_ = 0;  // groups whose details there are
  // Of the group being printed: how many user stacks it has, and those with most bytes; the oldest
  // records.
  uint32_t user_stacks_ = 0;
  UserStackSum user_stack_sums_[kUserStacksShown];
  std::span<const TraceRecord> oldest_;

  // Where the text is.
  uint64_t position_ = 0;  // of piece_ in the text
  Section section_ = Section::kHeader;
  uint32_t group_ = 0;
  uint32_t item_ = 0;     // in the part
  uint32_t printed_ = 0;  // items of a list
  uint32_t user_frame_ = 0;
  size_t length_ = 0;  // of piece_
  char piece_[kPiece];

  FrameLine frame_lines_[kFrameLines] = {};

  uint32_t context_shown_ = UINT32_MAX;  // whose text it is; the number of none
  size_t context_length_ = 0;
  char context_text_[kContextText];

  // The line of an object from its size on, and one of `oldest_` that has it.
  const TraceRecord* tail_of_ = nullptr;
  size_t tail_length_ = 0;
  char tail_[kObjectLine];
};

template <typename Mark>
void TraceText::mark(Mark& mark) const {
  for (uint32_t i = 0; i < groups_.size(); i++) mark.stack(groups_[i].stack);
  details_.mark(mark);
}
