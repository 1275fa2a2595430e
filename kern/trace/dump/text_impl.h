// The text of a dump: a snapshot of a table, grouped by stack.
//
// The text is made in passes over the snapshot, in memory that does not grow with the number of
// records. The first pass adds up the groups (trace/dump/groups_impl.h). Another pass collects the
// details of as many groups as fit (trace/dump/details_impl.h). Usually the details of all groups
// fit, and the snapshot is closed before anything is read. Otherwise, when a reader comes to a
// group whose details are missing, another pass collects the details of this group and of the next
// ones.
//
// Text is made piece by piece while it is read. No lock that a hook needs is held while symbols are
// looked up and lines are formatted. A read from an earlier offset restarts from the beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "intern/context_table.h"
#include "intern/stack_table.h"
#include "trace/dump/details_impl.h"
#include "trace/dump/groups_impl.h"
#include "trace/dump/ref_places.h"
#include "trace/record/options.h"
#include "trace/record/snapshot.h"
#include "trace/record/table.h"

// The data for the first two lines of a dump. The file `ctl` shows the same data in one line for
// each trace.
struct TraceHeader {
  char name[64];
  TraceState state;
  uint64_t object_size;            // bytes
  bool of_references;              // the source is a class of references, which have no size
  uint64_t objects;                // live objects, with a record or without
  std::optional<uint32_t> stacks;  // number of different stacks of the live records, if counted
  TraceCounters counters;
  uint64_t unattributed;  // live records that are in no group of the dump

  // Writes "kmemtrace NAME state …", without filters and newline. Returns the length of the whole
  // text.
  int format_state(char* buffer, size_t size) const;
  // Writes "seen … estimated_objects N", without newline. Returns the length of the whole text.
  int format_counters(char* buffer, size_t size) const;
};

class TraceText {
 public:
  static constexpr size_t kPiece = 512;
  // The most user stacks that are shown for each group: those with most bytes.
  static constexpr uint32_t kUserStacksShown = 8;
  // The most references whose locations are shown for each group.
  static constexpr uint32_t kPlacesShown = 8;
  // The most stacks that have freed objects of a group, and are shown: those with most frees.
  static constexpr size_t kFreesShown = 4;
  // The memory that the constructor gets, in bytes: for groups, records and cells
  // (trace/dump/details_impl.h), and for counts of frees.
  static constexpr size_t kGroupRoom = 36 * 1024, kRecordRoom = 60 * 1024, kCellRoom = 16 * 1024,
                          kFreeRoom = 4 * 1024;
  static constexpr size_t kRoom = kGroupRoom + kRecordRoom + kCellRoom + kFreeRoom;

  // `memory`: kRoom bytes, aligned to pages. While the text is used, the stack and context numbers
  // in the records must stay valid.
  TraceText(std::span<std::byte> memory, const StackTable& stacks, const ContextTable& contexts);

  // The snapshot of the text. The caller opens it, and may close it if needs_snapshot() is false.
  TraceSnapshot& snapshot() { return snapshot_; }
  // Groups the records of the opened snapshot by stack and sorts the groups. `now` is the time
  // when the snapshot was opened, or later. May sleep.
  void make(Milliseconds now);
  // Adds up the counts of frees of the snapshot's trace, if it counts frees. After make(), while
  // the snapshot is open, in a NumbersReading at whose beginning the trace's table is a user of the
  // shared tables. May sleep.
  void add_up_frees();
  // True if reading needs the snapshot. Otherwise retain() retains all stacks and contexts that
  // reading needs.
  bool needs_snapshot() const { return collected_ < groups_.size(); }
  // Retains the stacks and contexts of a text that needs no snapshot:
  // calls retained.stack() for each stack and retained.context() for each context. May be called
  // while the text is read.
  template <typename Retained>
  void retain(Retained& retained) const;
  // Retains the stacks of add_up_frees(), after its call. May be called while the text is read.
  template <typename Retained>
  void retain_frees(Retained& retained) const;

  // The caller fills in name, state, object_size, of_references and `objects` before make(), which
  // fills in the other fields.
  TraceHeader header = {};
  // In a dump of references: the result of a search for the references, made shortly after the
  // snapshot was opened. It must stay valid while the text is read. nullptr in other dumps, and if
  // there was no memory for the search.
  const RefPlaces* places = nullptr;
  bool places_missing = false;  // there was no memory to search for the references

  // Reads the text from `offset` on, and returns the number of bytes; 0 at the end of the text.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  // The records of a group that have the same user stack in the same program, in any context.
  struct UserStackSum {
    uint64_t bytes;
    uint64_t count;
    StackId user_stack;
    ContextId context;   // the first of the records' contexts
    uint32_t processes;  // number of different contexts of the records
  };
  // How many objects of one stack another stack has freed.
  struct FreesBy {
    using Key = StackCounts::Key;
    explicit FreesBy(Key key) : allocated_by(key.stack), freed_by(key.other_stack()) {}
    static uint64_t hash(Key key) { return key.word() * 0x9e3779b97f4a7c15; }
    bool is(Key other) const { return key().word() == other.word(); }
    Key key() const { return {allocated_by, freed_by}; }

    StackId allocated_by, freed_by;
    uint64_t frees = 0;
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
    kFrees,
    kFreeFrames,
    kPlaces,
    kObjects,
    kRest,
    kEnd
  };

  static constexpr size_t kContextText = 80;
  static constexpr size_t kFrameText = 256;
  // The longest line of an object: its words and spaces, an address, five numbers, a context. The
  // smaller this limit is, the more lines are put into a piece.
  static constexpr size_t kObjectLine = 48 + 16 + 5 * 10 + kContextText;
  static_assert(kObjectLine <= kPiece);

  void collect(uint32_t group);
  // The counts of the group that is being printed, most frees first.
  std::span<const FreesBy> frees() const;
  void collect_user_stacks();
  void add_user_stack(const UserStackSum& sum);
  const TraceGroup& group() const { return groups_[group_]; }
  uint32_t index() const { return group_ - first_collected_; }  // index of the group's details

  // A cached line of text for a frame of a kernel stack. Most frames of a stack occur in earlier
  // stacks. The line is at the index that the frame's hash gives, or at one of the next
  // kFrameProbes - 1 indices. If these are all in use, a new line replaces the line at the first
  // index.
  struct FrameLine {
    static constexpr size_t kLongest = 62;
    uint64_t frame;
    uint8_t length;  // 0: unused
    char text[kLongest + 1];
  };
  static constexpr size_t kFrameLines = 64, kFrameProbes = 8;
  void print_symbol(uint64_t frame);

  // Makes the next piece of the text in piece_.
  void next_piece();
  // Each of these functions prints one part of the text (enum Section). A call makes the part's
  // next piece in piece_, or moves to the next part.
  void print_header();
  void print_group();
  void print_frame();
  void print_ages();
  void print_marks();
  void print_context();
  void print_user_stack();
  void print_user_frame();
  void print_frees();
  void print_free_frame();
  void print_place();
  void print_object();
  void print_rest();
  // Prints "N bytes in N allocations" or "N references".
  void print_amount(uint64_t bytes, uint64_t objects);
  char* put_object(char* to, const TraceRecord& record);
  char* put_tail(char* to, const TraceRecord& record);
  // The text of a context, valid until the next call; caches the text of the last context.
  std::string_view context_text(ContextId context);
  __attribute__((format(printf, 2, 3))) void print(const char* pattern, ...);

  const StackTable& stacks_;
  const ContextTable& contexts_;
  TraceSnapshot snapshot_;
  TraceSnapshot::Slice slice_;  // for walks over the snapshot, one at a time
  Milliseconds now_;
  TraceGroups groups_;
  TraceDetails details_;
  // By allocating stack. Empty unless `has_frees_`: the trace counts frees. frees_lost_: frees that
  // are in no item.
  DumpSet<FreesBy> frees_;
  bool has_frees_ = false;
  uint64_t frees_lost_ = 0;
  // The first group with collected details, and the number of such groups.
  uint32_t first_collected_ = 0, collected_ = 0;
  // For the group that is being printed: the number of its user stacks, the user stacks with most
  // bytes, and the oldest records.
  uint32_t user_stacks_ = 0;
  UserStackSum user_stack_sums_[kUserStacksShown];
  std::span<const TraceRecord> oldest_;

  // The position in the text.
  uint64_t position_ = 0;  // offset of `piece_` in the text
  Section section_ = Section::kHeader;
  uint32_t group_ = 0;
  uint32_t item_ = 0;     // index of the next item in the part `section_`
  uint32_t printed_ = 0;  // number of ranges of marks printed so far
  // Index of the next frame of a user stack, or of a stack that has freed.
  uint32_t inner_frame_ = 0;
  size_t length_ = 0;  // bytes of `piece_`
  char piece_[kPiece];

  FrameLine frame_lines_[kFrameLines] = {};

  std::optional<ContextId> context_shown_;  // the context whose text is in context_text_
  size_t context_length_ = 0;
  char context_text_[kContextText];

  // The cached text of an object's line after the address, and the record for which this text was
  // made.
  const TraceRecord* tail_of_ = nullptr;
  size_t tail_length_ = 0;
  char tail_[kObjectLine];
};

template <typename Retained>
void TraceText::retain(Retained& retained) const {
  for (uint32_t i = 0; i < groups_.size(); i++) retained.stack(groups_[i].stack);
  details_.retain(retained);
}

template <typename Retained>
void TraceText::retain_frees(Retained& retained) const {
  for (const FreesBy& item : frees_.items()) retained.stack(item.freed_by);
}
