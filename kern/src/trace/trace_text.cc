#include "trace_text.h"

#include <algorithm>

#include "lib/format.h"
#include "symbols.h"

namespace {

constexpr size_t kBitsPerWord = 64;
constexpr size_t kMarkWords = (TraceTable::kMaxMark + 1) / kBitsPerWord;

bool test_bit(const PageBuffer<uint64_t>& bits, uint32_t index) {
  return bits[index / kBitsPerWord] >> index % kBitsPerWord & 1;
}
void set_bit(PageBuffer<uint64_t>& bits, uint32_t index) {
  bits[index / kBitsPerWord] |= uint64_t{1} << index % kBitsPerWord;
}
void clear_bit(PageBuffer<uint64_t>& bits, uint32_t index) {
  bits[index / kBitsPerWord] &= ~(uint64_t{1} << index % kBitsPerWord);
}

int format_context(char* buffer, size_t size, const ContextTable::Context* context) {
  if (!context) return format(buffer, size, "unknown");
  const ContextTable::Base& base = *context->base;
  switch (base.kind) {
    case ContextKind::kProcess:
      return format(buffer, size, "pid %u %s", base.pid, base.name);
    case ContextKind::kInterrupt:
      return format(buffer, size, "irq %s", base.name);
    case ContextKind::kKernelTask:
      break;
  }
  return format(buffer, size, "task %s", base.name);
}

}  // namespace

int TraceHeader::format_state(char* buffer, size_t size) const {
  return format(buffer, size, "kmemtrace %s state %s objsize %lu depth %u mark %u", name, trace_phase_name(state.phase),
                object_size, state.options.depth, state.mark);
}

int TraceHeader::format_counters(char* buffer, size_t size) const {
  char stacks_text[24] = "";
  if (stacks) format(stacks_text, sizeof(stacks_text), " stacks %u", *stacks);
  return format(buffer, size,
                "seen %lu recorded %lu dropped %lu filtered %lu freed %lu cleared %lu live %lu bytes %lu untracked %lu "
                "unmatched %lu%s stacks_lost %lu contexts_lost %lu truncated %lu",
                counters.seen, counters.recorded, counters.dropped, counters.filtered, counters.freed, counters.cleared,
                counters.live(), counters.live_bytes, untracked, counters.unmatched, stacks_text, counters.stacks_lost,
                counters.contexts_lost, counters.truncated);
}

Result<void> TraceText::copy(TraceTable& table, const StackTable& stacks, const ContextTable& contexts,
                             uint32_t (*now)()) {
  stacks_ = &stacks;
  contexts_ = &contexts;
  TRY(copy_.take(table, now));
  header.counters = copy_.counters();
  header.stacks = copy_.stacks();
  TRY(make_groups());
  TRY(mark_bits_.reserve(kMarkWords));
  std::fill_n(mark_bits_.data(), kMarkWords, 0);
  // Bit 0 stands for the context that was not recorded.
  first_context_ = contexts.base() - 1;
  const size_t context_words = (contexts.size() + 1) / kBitsPerWord + 1;
  TRY(context_bits_.reserve(context_words));
  std::fill_n(context_bits_.data(), context_words, 0);
  return {};
}

Result<void> TraceText::make_groups() {
  for (uint32_t i = 0; i < copy_.size(); i++) group_count_ += copy_.begins_stack(i);
  TRY(groups_.reserve(group_count_));
  uint32_t groups = 0;
  for (uint32_t i = 0; i < copy_.size(); i++) {
    if (copy_.begins_stack(i)) groups_[groups++] = {0, i, 0};
    groups_[groups - 1].bytes += copy_[i].size;
    groups_[groups - 1].count++;
  }
  std::sort(groups_.data(), groups_.data() + groups, [](const Group& a, const Group& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (a.count != b.count) return a.count > b.count;
    return a.first < b.first;
  });
  return {};
}

size_t TraceText::read(char* buffer, size_t size, uint64_t offset) {
  if (offset < position_) {
    position_ = 0;
    part_ = Part::kHeader;
    group_ = item_ = 0;
    length_ = 0;
    std::fill_n(mark_bits_.data(), mark_bits_.capacity(), 0);
    std::fill_n(context_bits_.data(), context_bits_.capacity(), 0);
  }
  size_t done = 0;
  while (done < size) {
    const uint64_t wanted = offset + done - position_;
    if (wanted < length_) {
      const size_t part = std::min<size_t>(size - done, length_ - wanted);
      memcpy(buffer + done, piece_ + wanted, part);
      done += part;
      continue;
    }
    if (part_ == Part::kEnd) break;
    position_ += length_;
    length_ = 0;
    next_piece();
  }
  return done;
}

void TraceText::next_piece() {
  switch (part_) {
    case Part::kHeader:
      return print_header();
    case Part::kGroup:
      return print_group();
    case Part::kFrames:
      return print_frame();
    case Part::kAges:
      return print_ages();
    case Part::kMarks:
      return print_marks();
    case Part::kContexts:
      return print_context();
    case Part::kObjects:
      return print_object();
    case Part::kEnd:
      return;
  }
}

// Appends to the piece.
void TraceText::print(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  const int length = vformat(piece_ + length_, kPiece - length_, pattern, arguments);
  va_end(arguments);
  length_ = std::min(length_ + static_cast<size_t>(length), kPiece - 1);
}

// The two lines are pieces of their own.
void TraceText::print_header() {
  if (item_++ == 0) {
    char filters[48];
    header.state.options.format_filters(filters, sizeof(filters));
    length_ = std::min<size_t>(header.format_state(piece_, kPiece), kPiece - 1);
    print("%s", filters);
  } else {
    length_ = std::min<size_t>(header.format_counters(piece_, kPiece), kPiece - 1);
    part_ = group_count_ > 0 ? Part::kGroup : Part::kEnd;
  }
  print("\n");
}

void TraceText::print_group() {
  print("\n%lu bytes in %u allocations from stack\n", group().bytes, group().count);
  if (record(0).stack == 0) print("\tthe stack was not recorded\n");
  part_ = record(0).stack == 0 ? Part::kAges : Part::kFrames;
  item_ = 0;
}

void TraceText::print_frame() {
  const StackTable::View stack = stacks_->view(record(0).stack);
  if (item_ < stack.size()) {
    char symbol[256];
    symbol_format(symbol, sizeof(symbol), stack[item_++]);
    print("\t%s\n", symbol);
    return;
  }
  part_ = Part::kAges;
}

// Also collects the marks and contexts of the group.
void TraceText::print_ages() {
  uint64_t sum = 0;
  contexts_in_group_ = 0;
  for (uint32_t i = 0; i < group().count; i++) {
    sum += copy_.age(record(i));
    set_bit(mark_bits_, record(i).mark());
    const uint32_t context = context_bit(record(i));
    contexts_in_group_ += !test_bit(context_bits_, context);
    set_bit(context_bits_, context);
  }
  print("\tage ms min %u avg %lu max %u, marks ", copy_.age(record(group().count - 1)), sum / group().count,
        copy_.age(record(0)));
  part_ = Part::kMarks;
  item_ = printed_ = 0;
}

// One range of marks at a time; their bits are cleared on the way.
void TraceText::print_marks() {
  while (item_ / kBitsPerWord < kMarkWords && !test_bit(mark_bits_, item_)) {
    item_ += mark_bits_[item_ / kBitsPerWord] >> item_ % kBitsPerWord ? 1 : kBitsPerWord - item_ % kBitsPerWord;
  }
  if (item_ / kBitsPerWord >= kMarkWords) {
    print(", contexts ");
    part_ = Part::kContexts;
    item_ = printed_ = 0;
    return;
  }
  const uint32_t first = item_;
  for (; item_ <= TraceTable::kMaxMark && test_bit(mark_bits_, item_); item_++) clear_bit(mark_bits_, item_);
  print(printed_++ > 0 ? ",%u" : "%u", first);
  if (item_ - first > 1) print("-%u", item_ - 1);
}

// The next context that the group's records, the oldest first, have not brought yet. Bits are cleared on the way.
void TraceText::print_context() {
  while (item_ < group().count) {
    const TraceRecord& at = record(item_++);
    const uint32_t bit = context_bit(at);
    if (!test_bit(context_bits_, bit)) continue;
    clear_bit(context_bits_, bit);
    if (printed_++ >= kContextsShown) continue;
    char text[80];
    format_context(text, sizeof(text), contexts_->get(at.context));
    print(printed_ > 1 ? ", %s" : "%s", text);
    return;
  }
  if (contexts_in_group_ > kContextsShown) print(", … %u more", contexts_in_group_ - kContextsShown);
  print("\n");
  part_ = Part::kObjects;
  item_ = 0;
}

void TraceText::print_object() {
  if (item_ < group().count && item_ < kObjectsShown) {
    const TraceRecord& at = record(item_++);
    char context[80];
    format_context(context, sizeof(context), contexts_->get(at.context));
    print("\t0x%016lx size %u age %u mark %u cpu %u %s\n", at.object(), at.size, copy_.age(at), at.mark(), at.cpu(),
          context);
    return;
  }
  if (item_ < group().count) print("\t… %u more\n", group().count - item_);
  part_ = ++group_ < group_count_ ? Part::kGroup : Part::kEnd;
}
