#include "trace/dump/details_impl.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "lib/string.h"

namespace {

// The most memory for details, in bytes. More would only save passes over the records.
constexpr size_t kMostRoom = 4 * 1024 * 1024;
constexpr unsigned kMarksPerCell = 64;
constexpr uint32_t kNone = UINT32_MAX;

// A function object, so that the algorithms below inline it.
constexpr auto is_older = [](const TraceRecord& a, const TraceRecord& b) {
  const Milliseconds a_time = a.time(), b_time = b.time();
  return a_time != b_time ? a_time < b_time : a.object() < b.object();
};

uint32_t shown_of(const TraceGroup& group) {
  return static_cast<uint32_t>(std::min<uint64_t>(group.objects, TraceDetails::kObjectsShown));
}

}  // namespace

int TraceDetails::compare_programs(const ContextTable& contexts, ContextId a_context,
                                   ContextId b_context) {
  if (a_context == b_context) return 0;
  const ContextTable::Program& a = *contexts.get(a_context)->program;
  const ContextTable::Program& b = *contexts.get(b_context)->program;
  if (&a == &b) return 0;
  if (const int order = strcmp(a.path, b.path)) return order;
  if (a.build_id_size != b.build_id_size) return a.build_id_size < b.build_id_size ? -1 : 1;
  return memcmp(a.build_id.data(), b.build_id.data(), a.build_id_size);
}

void TraceDetails::use(std::span<std::byte> records, std::span<std::byte> cells) {
  room_ = records;
  cells_.use(cells);
}

// Allocates memory for the details of `groups`, as much as is useful and available. Called only
// once: with more memory, a later collection that begins with the same group would have another
// result.
void TraceDetails::want_room(const TraceGroups& groups) {
  size_t wanted = 0;
  for (uint32_t i = 0; i < groups.size() && wanted < kMostRoom; i++)
    wanted += sizeof(Detail) + shown_of(groups[i]) * sizeof(TraceRecord);
  wanted = std::min(wanted, kMostRoom);
  for (; wanted > room_.size(); wanted /= 2) {
    if (!more_.reserve(wanted)) continue;
    room_ = {more_.data(), more_.capacity()};
    return;
  }
}

// Makes empty details for as many groups as fit, beginning with group `first`. Returns the number
// of these groups.
uint32_t TraceDetails::plan(const TraceGroups& groups, uint32_t first) {
  size_t used = 0;
  uint32_t count = 0;
  for (; first + count < groups.size(); count++) {
    used += sizeof(Detail) + shown_of(groups[first + count]) * sizeof(TraceRecord);
    if (used > room_.size()) break;
  }
  details_ = {reinterpret_cast<Detail*>(room_.data()), count};
  records_ = reinterpret_cast<TraceRecord*>(room_.data() + count * sizeof(Detail));
  uint32_t record = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t room = shown_of(groups[first + i]);
    details_[i] = {.first_record = record,
                   .records = 0,
                   .room = room,
                   .all = groups[first + i].objects <= room,
                   .origin = kNone,
                   .context = ContextId::kNone,
                   .user_stack = StackId::kNone,
                   .mark = kNone,
                   .first_origin = 0,
                   .origins = 0,
                   .user_origins = 0,
                   .first_mark = 0,
                   .marks = 0,
                   .context_count = 0,
                   .contexts = {},
                   .without_origin = 0,
                   .without_mark = 0};
    record += room;
  }
  return count;
}

uint32_t TraceDetails::collect(TraceSnapshot& snapshot, TraceSnapshot::Slice& slice,
                               const TraceGroups& groups, const ContextTable& contexts,
                               uint32_t first) {
  if (!std::exchange(has_asked_for_room_, true)) want_room(groups);
  const uint32_t count = plan(groups, first);
  cells_.clear();
  StackId last = StackId::kNone;
  uint32_t index = 0;
  bool known = false;
  snapshot.visit(slice, [&](const TraceRecord& record) {
    if (!known || record.stack != last) {
      last = record.stack;
      index = groups.find(last) - first;
      known = true;
    }
    if (index < count) add(index, record);
  });
  for (Detail& detail : details_) {
    TraceRecord* const oldest = records_ + detail.first_record;
    std::sort(oldest, oldest + detail.records, is_older);
  }
  order_cells(contexts);
  return count;
}

void TraceDetails::add(uint32_t index, const TraceRecord& record) {
  Detail& detail = details_[index];
  add_oldest(detail, record);
  add_origin(index, detail, record);
  add_mark(index, detail, record);
}

// Stores a record if it is one of the group's oldest. If not all records of the group fit, the
// stored records are a heap with the youngest on top. An older record replaces the youngest one.
void TraceDetails::add_oldest(Detail& detail, const TraceRecord& record) {
  TraceRecord* const first = records_ + detail.first_record;
  if (detail.records < detail.room) {
    first[detail.records++] = record;
    if (detail.records == detail.room && !detail.all)
      std::make_heap(first, first + detail.room, is_older);
    return;
  }
  if (detail.all || !is_older(record, *first)) return;
  std::pop_heap(first, first + detail.room, is_older);
  first[detail.room - 1] = record;
  std::push_heap(first, first + detail.room, is_older);
}

void TraceDetails::add_origin(uint32_t index, Detail& detail, const TraceRecord& record) {
  if (detail.origin == kNone || detail.context != record.context ||
      detail.user_stack != record.user_stack) {
    detail.origin =
        cells_.find_or_add({2 * index, number_of(record.context), number_of(record.user_stack)});
    if (detail.origin == kNone) {
      detail.without_origin++;
      return;
    }
    detail.context = record.context;
    detail.user_stack = record.user_stack;
  }
  Cell& cell = cells_[detail.origin];
  cell.objects++;
  cell.bytes += record.size();
  const Milliseconds time = record.time();
  if (time > cell.time || (time == cell.time && record.object() > cell.object)) return;
  cell.time = time;
  cell.object = record.object();
}

void TraceDetails::add_mark(uint32_t index, Detail& detail, const TraceRecord& record) {
  const uint32_t mark = record.mark();
  if (mark == detail.mark) return;
  const uint32_t cell = cells_.find_or_add({2 * index + 1, mark / kMarksPerCell, 0});
  if (cell == kNone) {
    detail.mark = kNone;
    detail.without_mark++;
    return;
  }
  cells_[cell].marks |= uint64_t{1} << mark % kMarksPerCell;
  detail.mark = mark;
}

// Sorts the cells by group. In each group, the ranges of marks are sorted upwards.
void TraceDetails::order_cells(const ContextTable& contexts) {
  cells_.sort([](const Cell& a, const Cell& b) {
    if (a.its.owner != b.its.owner) return a.its.owner < b.its.owner;
    return a.its.a != b.its.a ? a.its.a < b.its.a : a.its.b < b.its.b;
  });
  for (uint32_t i = 0; i < cells_.size(); i++) {
    Detail& detail = details_[cells_[i].its.owner / 2];
    uint32_t& first = cells_[i].is_mark() ? detail.first_mark : detail.first_origin;
    uint32_t& count = cells_[i].is_mark() ? detail.marks : detail.origins;
    if (count++ == 0) first = i;
  }
  for (Detail& detail : details_) {
    find_contexts(detail);
    order_origins(detail, contexts);
  }
}

// Finds the contexts of the group's oldest records, at most kContextsShown. The caller has sorted
// the group's origins by context.
void TraceDetails::find_contexts(Detail& detail) const {
  const std::span<const Cell> origins = cells_.items().subspan(detail.first_origin, detail.origins);
  const Cell* found[kContextsShown];
  for (size_t i = 0; i < origins.size();) {
    const Cell* oldest = &origins[i];
    for (const ContextId context = oldest->context();
         i < origins.size() && origins[i].context() == context; i++) {
      if (origins[i].is_before(*oldest)) oldest = &origins[i];
    }
    uint32_t place = std::min(detail.context_count++, kContextsShown);
    for (; place > 0 && oldest->is_before(*found[place - 1]); place--) {
      if (place < kContextsShown) found[place] = found[place - 1];
    }
    if (place < kContextsShown) found[place] = oldest;
  }
  for (uint32_t i = 0; i < std::min(detail.context_count, kContextsShown); i++)
    detail.contexts[i] = found[i]->context();
}

void TraceDetails::order_origins(Detail& detail, const ContextTable& contexts) {
  const std::span<Cell> origins = cells_.items().subspan(detail.first_origin, detail.origins);
  const auto end = std::partition(origins.begin(), origins.end(), [](const Cell& at) {
    return at.user_stack() != StackId::kNone && at.context() != ContextId::kNone;
  });
  detail.user_origins = static_cast<uint32_t>(end - origins.begin());
  std::sort(origins.begin(), end, [&](const Cell& a, const Cell& b) {
    if (a.user_stack() != b.user_stack()) return a.user_stack() < b.user_stack();
    const int order = compare_programs(contexts, a.context(), b.context());
    return order != 0 ? order < 0 : a.context() < b.context();
  });
}

uint32_t TraceDetails::next_mark(uint32_t index, uint32_t from) const {
  const Detail& detail = details_[index];
  for (const Cell& cell : cells_.items().subspan(detail.first_mark, detail.marks)) {
    const uint32_t first = cell.its.a * kMarksPerCell;
    if (first + kMarksPerCell <= from) continue;
    const uint64_t left =
        from <= first ? cell.marks : cell.marks >> (from - first) << (from - first);
    if (left != 0) return first + static_cast<uint32_t>(std::countr_zero(left));
  }
  return kNoMark;
}
