// The details of a group in a dump, in addition to its totals: the oldest records, the contexts and
// user stacks, and the marks. The mark of a record is the number of `mark` commands that the trace
// had before the allocation (trace/record/record.h).
//
// One pass collects the details of as many groups as fit. Each record has an origin, which is a
// context with a user stack. The records of a group that have the same origin are added up in one
// cell. Another kind of cell has a bit for each of 64 consecutive marks. A group has such a cell
// for each range of 64 marks from which at least one occurs in the group. So the number of cells
// does not depend on the number of records. When there is no memory for a cell, the records that
// need this cell are only counted.
//
// Collected details do not change until the next collection. So the sweeper (intern/sweeper.h) may
// call retain() while a reader uses the details.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "intern/context_table.h"
#include "trace/dump/groups_impl.h"
#include "trace/dump/set_impl.h"
#include "trace/record/snapshot.h"

class TraceDetails {
 public:
  static constexpr uint32_t kObjectsShown = 100;  // the oldest objects of each group are shown
  // The most contexts that are shown for each group: those of its oldest objects.
  static constexpr uint32_t kContextsShown = 8;

  // Either the sums over the records of one origin in a group; or a range of 64 marks, with a bit
  // for each mark that occurs in the group.
  struct Cell {
    // `owner` is twice the group's index, plus one in a cell of marks. In a cell of an origin, `a`
    // is the number of the context and `b` the number of the user stack. In a cell of marks, `a` is
    // the first mark divided by 64.
    struct Key {
      uint32_t owner, a, b;
      bool operator==(const Key&) const = default;
    };
    explicit Cell(const Key& key_of) : its(key_of) {}
    static uint64_t hash(const Key& key) {
      return ((uint64_t{key.owner} << 32 | key.a) * 0x9e3779b97f4a7c15 ^ key.b) *
             0xbf58476d1ce4e5b9;
    }
    bool is(const Key& key) const { return its == key; }
    const Key& key() const { return its; }

    bool is_mark() const { return its.owner % 2 != 0; }
    ContextId context() const { return ContextId{its.a}; }
    StackId user_stack() const { return StackId{its.b}; }
    // True if the oldest record of this cell is older than that of `other`.
    bool is_before(const Cell& other) const {
      return time != other.time ? time < other.time : object < other.object;
    }

    Key its;
    uint64_t marks = 0;               // a bit for each mark; unused in a cell of an origin
    uint64_t objects = 0, bytes = 0;  // from here on: unused in a cell of marks
    // Time and address of the oldest object.
    Milliseconds time{UINT64_MAX};
    uint64_t object = UINT64_MAX;
  };

  // Compares the programs of two contexts by path and build id: negative, 0 or positive. 0 means
  // the same program, which may run under several names.
  static int compare_programs(const ContextTable& contexts, ContextId a_context,
                              ContextId b_context);

  // Sets the memory for records and for cells, aligned to pages. More memory for records is
  // allocated later if possible. Called once, before all other functions.
  void use(std::span<std::byte> records, std::span<std::byte> cells);

  // Collects the details of as many groups as fit, beginning with group `first`. Returns the number
  // of these groups, at least one. Repeated collections with the same `first` have the same result.
  // May sleep.
  uint32_t collect(TraceSnapshot& snapshot, TraceSnapshot::Slice& slice, const TraceGroups& groups,
                   const ContextTable& contexts, uint32_t first);

  // In the following functions `index` is the number of a group among the collected groups.

  // The oldest records, oldest first.
  std::span<const TraceRecord> oldest(uint32_t index) const {
    return {records_ + details_[index].first_record, details_[index].records};
  }
  // The number of contexts of the group's records.
  uint32_t context_count(uint32_t index) const { return details_[index].context_count; }
  // One of the contexts of the group's records; `place` is less than context_count() and
  // kContextsShown. Contexts of the oldest records come first.
  ContextId context(uint32_t index, uint32_t place) const {
    return details_[index].contexts[place];
  }
  // The origins with a context and a user stack, sorted by user stack, program, context.
  std::span<const Cell> user_origins(uint32_t index) const {
    return cells_.items().subspan(details_[index].first_origin, details_[index].user_origins);
  }
  // When there is no memory for a cell, records are only counted: without_origin() counts those
  // without a cell for their origin, without_mark() those without a cell for their mark.
  uint64_t without_origin(uint32_t index) const { return details_[index].without_origin; }
  uint64_t without_mark(uint32_t index) const { return details_[index].without_mark; }
  // The lowest mark, not below `from`, that occurs in the group; kNoMark if there is none.
  static constexpr uint32_t kNoMark = UINT32_MAX;
  uint32_t next_mark(uint32_t index, uint32_t from) const;

  // Retains the user stacks and contexts of the collected details:
  // calls retained.stack() for each stack and retained.context() for each context.
  template <typename Retained>
  void retain(Retained& retained) const;

 private:
  struct Detail {
    uint32_t first_record;
    uint32_t records, room;  // number of stored records; number that fit
    bool all;                // all records of the group fit
    uint32_t origin;         // number of the cell for the origin of the last added record; or kNone
    ContextId context;       // context of the last added record
    StackId user_stack;      // user stack of the last added record
    uint32_t mark;           // mark of the last added record; kNone if it has no cell
    uint32_t first_origin, origins, user_origins, first_mark, marks;
    uint32_t context_count;
    ContextId contexts[kContextsShown];
    uint64_t without_origin, without_mark;
  };

  uint32_t plan(const TraceGroups& groups, uint32_t first);
  void want_room(const TraceGroups& groups);
  void add(uint32_t index, const TraceRecord& record);
  void add_oldest(Detail& detail, const TraceRecord& record);
  void add_origin(uint32_t index, Detail& detail, const TraceRecord& record);
  void add_mark(uint32_t index, Detail& detail, const TraceRecord& record);
  void order_cells(const ContextTable& contexts);
  void find_contexts(Detail& detail) const;
  void order_origins(Detail& detail, const ContextTable& contexts);

  std::span<std::byte> room_;   // first the details, after them the records
  PageBuffer<std::byte> more_;  // memory for `room_`, if it could be allocated
  bool has_asked_for_room_ = false;
  std::span<Detail> details_;
  TraceRecord* records_ = nullptr;
  DumpSet<Cell> cells_;
};

template <typename Retained>
void TraceDetails::retain(Retained& retained) const {
  for (const Cell& cell : cells_.items()) {
    if (cell.is_mark()) continue;
    retained.context(cell.context());
    retained.stack(cell.user_stack());
  }
  for (const Detail& detail : details_) {
    for (uint32_t i = 0; i < detail.records; i++)
      retained.context(records_[detail.first_record + i].context);
  }
}
