// The text of a dump: a snapshot of a table, grouped by stack.
//
// It is made in passes over the snapshot, in memory that does not grow with the number of records.
// The first pass adds up the groups (trace_groups.h). Another pass collects the details of as many
// groups as fit (trace_details.h). Usually all fit, and the snapshot is closed before anything is
// read. Otherwise the details of the next groups are collected when a reader comes to them.
//
// Text is made piece by piece while it is read, so that no hook waits for symbols or formatting. A
// read from an earlier offset restarts from the beginning.
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
  bool of_references;              // these have no size
  uint64_t objects;                // live objects, with a record or without
  std::optional<uint32_t> stacks;  // number of different stacks of the live records, if counted
  TraceCounters counters;
  uint64_t unattributed;  // live records of stacks for which a dump has no group

  // "kmemtrace NAME state …" and "seen … estimated_objects N", without filters, which end a line,
  // and newline. They return the length of the whole text.
  int format_state(char* buffer, size_t size) const;
  int format_counters(char* buffer, size_t size) const;
};

class TraceText {
 public:
  static constexpr size_t kPiece = 512;
  static constexpr uint32_t kUserStacksShown = 8;  // of each group, those with most bytes
  static constexpr uint32_t kPlacesShown = 8;      // of each group of references
  // Bytes of its memory: for groups, for records, for cells (trace_details.h).
  static constexpr size_t kGroupRoom = 36 * 1024, kRecordRoom = 64 * 1024, kCellRoom = 20 * 1024;
  static constexpr size_t kRoom = kGroupRoom + kRecordRoom + kCellRoom;

  // `memory`: kRoom bytes, aligned to pages. `stacks` and `contexts` must keep their numbers while
  // the text is used.
  TraceText(std::span<std::byte> memory, const StackTable& stacks, const ContextTable& contexts);

  // The snapshot of the text. The caller opens it, and closes it unless this has closed it.
  TraceSnapshot& snapshot() { return snapshot_; }
  // Groups the records of the opened snapshot by stack and sorts the groups. `now` is in coarse
  // milliseconds, not before that moment. May sleep.
  void make(uint64_t now);
  // True if reading needs the snapshot. Otherwise mark() marks the needed numbers.
  bool needs_snapshot() const { return collected_ < groups_.size(); }
  // Calls mark.stack(), for pairs too, and mark.context() for all numbers in a text that needs no
  // snapshot. Also while the text is read.
  template <typename Mark>
  void mark(Mark& mark) const;

  // The caller fills in name, state, object size and `objects` before make(), which fills in the
  // rest.
  TraceHeader header = {};
  // For references: their places, found shortly after the snapshot. Valid until the text is read.
  const RefPlaces* places = nullptr;
  bool places_missing = false;  // they were requested, but there was no memory

  // Reads the text from `offset` on; 0 at its end.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  // The records of a group that have the same user stack in the same program, in any context.
  struct UserStackSum {
    uint64_t bytes;
    uint64_t count;
    uint32_t user_stack;
    uint32_t context;    // the first
    uint32_t processes;  // number of contexts
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

  // A cached line for a frame: its kernel function. Most frames of a stack occur in earlier stacks.
  struct FrameLine {
    static constexpr size_t kLongest = 62;
    uint64_t frame;
    uint8_t length;  // 0: unused
    char text[kLongest + 1];
  };
  static constexpr size_t kFrameLines = 64;
  void print_symbol(uint64_t frame);

  // Each makes the next piece of its part in piece_, or moves to the next part.
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
  // Valid until the next call; caches the last context.
  std::string_view context_text(uint32_t context);
  __attribute__((format(printf, 2, 3))) void print(const char* pattern, ...);

  const StackTable& stacks_;
  const ContextTable& contexts_;
  TraceSnapshot snapshot_;
  uint64_t now_ = 0;
  TraceGroups groups_;
  TraceDetails details_;
  uint32_t first_collected_ = 0, collected_ = 0;  // groups with collected details
  // The group being printed: its number of user stacks, and those with most bytes; its oldest
  // records.
  uint32_t user_stacks_ = 0;
  UserStackSum user_stack_sums_[kUserStacksShown];
  std::span<const TraceRecord> oldest_;

  // The position in the text.
  uint64_t position_ = 0;  // of piece_
  Section section_ = Section::kHeader;
  uint32_t group_ = 0;
  uint32_t item_ = 0;     // in the part
  uint32_t printed_ = 0;  // items of a list
  uint32_t user_frame_ = 0;
  size_t length_ = 0;  // of piece_
  char piece_[kPiece];

  FrameLine frame_lines_[kFrameLines] = {};

  uint32_t context_shown_ = UINT32_MAX;  // the context of context_text_; UINT32_MAX: none
  size_t context_length_ = 0;
  char context_text_[kContextText];

  // The line of an object from its size on, and the record of `oldest_` that it was made for.
  const TraceRecord* tail_of_ = nullptr;
  size_t tail_length_ = 0;
  char tail_[kObjectLine];
};

template <typename Mark>
void TraceText::mark(Mark& mark) const {
  for (uint32_t i = 0; i < groups_.size(); i++) mark.stack(groups_[i].stack);
  details_.mark(mark);
}
