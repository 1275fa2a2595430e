// The text of a dump: a copy of a table, grouped by stack.
//
// Text is made piece by piece while it is read, so that neither symbols nor formatting are ever
// waited for by a hook. Reading again from an earlier place begins again from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "store/context_table.h"
#include "store/page_buffer.h"
#include "store/stack_table.h"
#include "trace/dump/trace_copy.h"
#include "trace/trace_options.h"
#include "trace/trace_table.h"

// The first two lines of a dump, and a line of `ctl`.
struct TraceHeader {
  char name[64];
  TraceState state;
  uint64_t object_size;
  uint64_t untracked;
  std::optional<uint32_t> stacks;  // different ones of the live records, where they were counted
  TraceCounters counters;
  SampleWeight estimate;  // what the live records stand for

  // "kmemtrace NAME state …" and "seen … estimated_objects N", without filters and newline: filters
  // are the last of a line. They return the lengths of the whole texts.
  int format_state(char* buffer, size_t size) const;
  int format_counters(char* buffer, size_t size) const;
};

class TraceText {
 public:
  static constexpr size_t kPiece = 512;
  static constexpr uint32_t kObjectsShown = 100;  // of each group, the oldest
  static constexpr uint32_t kContextsShown = 8;
  static constexpr uint32_t kUserStacksShown = 8;  // of each group, those with most bytes

  // Copies the records of `table`, groups them by stack and sorts the groups. `now` in coarse
  // milliseconds is asked for after the copy is made. ENOMEM. May sleep; `stacks` and `contexts`
  // must keep their numbers while the text is used: in a StoreReading until somebody marks what it
  // holds.
  Result<void> copy(TraceTable& table, const StackTable& stacks, const ContextTable& contexts,
                    uint64_t (*now)());
  // Marks the numbers of the copy's records. After copy().
  void mark(StoreMark& mark) const { copy_.mark(mark); }

  // The caller fills in name, state and object size before copy(), which does the rest but
  // `untracked`.
  TraceHeader header = {};

  // Bytes of the text from `offset` on; 0 at its end.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  struct Group {
    uint64_t bytes;
    SampleWeight estimate;
    uint32_t first;
    uint32_t count;
  };
  // Of the records of a group, those of all contexts with the same user stack in the same program.
  struct Share {
    uint64_t bytes;
    uint32_t count;
    uint32_t user_stack;
    uint32_t context;    // the first
    uint32_t processes;  // how many contexts
  };
  enum class Part : uint8_t {
    kHeader,
    kGroup,
    kFrames,
    kAges,
    kMarks,
    kContexts,
    kUserStacks,
    kUserFrames,
    kObjects,
    kEnd
  };

  static constexpr size_t kContextText = 80;
  // The longest line of an object: its words and spaces, an address, five numbers, a context.
  static constexpr size_t kObjectLine = 48 + 16 + 5 * 10 + kContextText;
  static_assert(kObjectLine <= kPiece);

  Result<void> make_groups();
  void collect_contexts();
  void collect_shares();
  void add_share(const Share& share);
  const Group& group() const { return groups_[group_]; }
  const TraceRecord& record(uint32_t index) const { return copy_[group().first + index]; }

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
  void print_object();
  char* put_object(char* to, const TraceRecord& record);
  // Valid until the next call; the same context again costs nothing.
  std::string_view context_text(uint32_t context);
  __attribute__((format(printf, 2, 3))) void print(const char* pattern, ...);

  const StackTable* stacks_ = nullptr;
  const ContextTable* contexts_ = nullptr;
  TraceCopy copy_;
  PageBuffer<Group> groups_;
  uint32_t group_count_ = 0;
  // Of the group being printed: one bit for each mark; the contexts in the order in which its
  // records bring them, and where a context is among these, if it is; which records have a user
  // stack; how many there are of these, and those with most bytes, which are shown.
  PageBuffer<uint64_t> mark_bits_;
  PageBuffer<uint32_t> group_contexts_;
  uint32_t group_context_count_ = 0;
  PageBuffer<uint32_t> places_;
  PageBuffer<uint32_t> with_user_stack_;
  uint32_t user_stacks_ = 0;
  Share shares_[kUserStacksShown];

  // Where the text is.
  uint64_t position_ = 0;  // of piece_ in the text
  Part part_ = Part::kHeader;
  uint32_t group_ = 0;
  uint32_t item_ = 0;     // in the part
  uint32_t printed_ = 0;  // items of a list
  uint32_t user_frame_ = 0;
  size_t length_ = 0;  // of piece_
  char piece_[kPiece];

  uint32_t context_shown_ = UINT32_MAX;  // whose text it is; the number of none
  size_t context_length_ = 0;
  char context_text_[kContextText];
};
