#include "trace/dump/trace_text.h"

#include <algorithm>

#include "core/symbols.h"
#include "lib/digits.h"
#include "lib/format.h"

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
  const char* const name = context->program->name;
  switch (context->kind) {
    case ContextKind::kProcess:
      return format(buffer, size, "pid %u %s", unsigned{context->pid}, name);
    case ContextKind::kInterrupt:
      return format(buffer, size, "irq %s", name);
    case ContextKind::kKernelTask:
      break;
  }
  return format(buffer, size, "task %s", name);
}

}  // namespace

int TraceHeader::format_state(char* buffer, size_t size) const {
  return format(buffer, size, "kmemtrace %s state %s objsize %lu depth %u mark %u", name,
                trace_phase_name(state.phase), object_size, state.options.depth, state.mark);
}

int TraceHeader::format_counters(char* buffer, size_t size) const {
  char stacks_text[24] = "";
  if (stacks) format(stacks_text, sizeof(stacks_text), " stacks %u", *stacks);
  return format(buffer, size,
                "seen %lu recorded %lu dropped %lu filtered %lu freed %lu cleared %lu live %lu "
                "bytes %lu untracked %lu "
                "unmatched %lu%s stacks_lost %lu contexts_lost %lu truncated %lu estimated_bytes "
                "%lu estimated_objects %lu",
                counters.seen, counters.recorded, counters.dropped, counters.filtered,
                counters.freed, counters.cleared, counters.live(), counters.live_bytes, untracked,
                counters.unmatched, stacks_text, counters.stacks_lost, counters.contexts_lost,
                counters.truncated, estimate.whole_bytes(), estimate.whole_objects());
}

Result<void> TraceText::copy(TraceTable& table, const StackTable& stacks,
                             const ContextTable& contexts, uint64_t (*now)()) {
  stacks_ = &stacks;
  contexts_ = &contexts;
  TRY(copy_.take(table, stacks, now));
  header.counters = copy_.counters();
  header.stacks = copy_.stacks();
  TRY(make_groups());
  TRY(mark_bits_.reserve(kMarkWords));
  std::fill_n(mark_bits_.data(), kMarkWords, 0);
  // Place 0 stands for the context that was not recorded.
  // Read once, after the copy: the contexts of the copy are below it, and the table goes on
  // growing.
  const size_t places = size_t{contexts.end()} + 1;
  TRY(group_contexts_.reserve(places));
  TRY(places_.reserve(places));
  std::fill_n(places_.data(), places, 0);
  uint32_t largest = 0;
  for (uint32_t i = 0; i < group_count_; i++) largest = std::max(largest, groups_[i].count);
  return with_user_stack_.reserve(largest);
}

Result<void> TraceText::make_groups() {
  for (uint32_t i = 0; i < copy_.size(); i++) group_count_ += copy_.begins_stack(i);
  TRY(groups_.reserve(group_count_));
  uint32_t groups = 0;
  SampleSum sum(header.state.options.sample);
  for (uint32_t i = 0; i < copy_.size(); i++) {
    if (copy_.begins_stack(i)) groups_[groups++] = {0, {}, i, 0};
    groups_[groups - 1].bytes += copy_[i].size();
    groups_[groups - 1].estimate += sum.add(copy_[i].size());
    groups_[groups - 1].count++;
  }
  std::sort(groups_.data(), groups_.data() + groups, [](const Group& a, const Group& b) {
    if (a.estimate.bytes != b.estimate.bytes) return a.estimate.bytes > b.estimate.bytes;
    if (a.count != b.count) return a.count > b.count;
    return a.first < b.first;
  });
  header.estimate = sum.sum();
  return {};
}

size_t TraceText::read(char* buffer, size_t size, uint64_t offset) {
  if (offset < position_) {
    position_ = 0;
    part_ = Part::kHeader;
    group_ = item_ = 0;
    length_ = 0;
    std::fill_n(mark_bits_.data(), mark_bits_.capacity(), 0);
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
    case Part::kUserStacks:
      return print_user_stack();
    case Part::kUserFrames:
      return print_user_frame();
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
    char filters[TraceOptions::kMaxFilters];
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
  print("\n%lu bytes in %u allocations from stack", group().bytes, group().count);
  if (header.state.options.sample != 0) {
    print(", estimated %lu bytes in %lu allocations", group().estimate.whole_bytes(),
          group().estimate.whole_objects());
  }
  print("\n");
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
  for (uint32_t i = 0; i < group().count; i++) {
    sum += copy_.age(record(i));
    set_bit(mark_bits_, record(i).mark());
  }
  collect_contexts();
  print("\tage ms min %lu avg %lu max %lu, marks ", copy_.age(record(group().count - 1)),
        sum / group().count, copy_.age(record(0)));
  part_ = Part::kMarks;
  item_ = printed_ = 0;
}

void TraceText::collect_contexts() {
  group_context_count_ = 0;
  uint32_t last = UINT32_MAX;
  for (uint32_t i = 0; i < group().count; i++) {
    const uint32_t context = record(i).context;
    if (context == last) continue;
    last = context;
    uint32_t& place = places_[context];
    // What stands there may be from another group.
    if (place < group_context_count_ && group_contexts_[place] == context) continue;
    place = group_context_count_++;
    group_contexts_[place] = context;
  }
}

// One range of marks at a time; their bits are cleared on the way.
void TraceText::print_marks() {
  while (item_ / kBitsPerWord < kMarkWords && !test_bit(mark_bits_, item_)) {
    item_ += mark_bits_[item_ / kBitsPerWord] >> item_ % kBitsPerWord
                 ? 1
                 : kBitsPerWord - item_ % kBitsPerWord;
  }
  if (item_ / kBitsPerWord >= kMarkWords) {
    print(", contexts ");
    part_ = Part::kContexts;
    item_ = printed_ = 0;
    return;
  }
  const uint32_t first = item_;
  for (; item_ <= TraceTable::kMaxMark && test_bit(mark_bits_, item_); item_++)
    clear_bit(mark_bits_, item_);
  print(printed_++ > 0 ? ",%u" : "%u", first);
  if (item_ - first > 1) print("-%u", item_ - 1);
}

// The oldest records' contexts come first.
void TraceText::print_context() {
  if (item_ < group_context_count_ && item_ < kContextsShown) {
    char text[kContextText];
    format_context(text, sizeof(text), contexts_->get(group_contexts_[item_]));
    print(item_++ > 0 ? ", %s" : "%s", text);
    return;
  }
  if (group_context_count_ > kContextsShown)
    print(", … %u more", group_context_count_ - kContextsShown);
  print("\n");
  collect_shares();
  part_ = Part::kUserStacks;
  item_ = 0;
}

// The user stacks of the group, the same stack in the same program once, most bytes first.
void TraceText::collect_shares() {
  const auto program = [this](const TraceRecord& at) -> const ContextTable::Program& {
    return *contexts_->get(at.context)->program;
  };
  // The same program may be known by several names.
  const auto compare = [](const ContextTable::Program& a, const ContextTable::Program& b) {
    if (&a == &b) return 0;
    if (const int order = strcmp(a.path, b.path)) return order;
    if (a.build_id_size != b.build_id_size) return a.build_id_size < b.build_id_size ? -1 : 1;
    return memcmp(a.build_id.data(), b.build_id.data(), a.build_id_size);
  };
  user_stacks_ = 0;
  uint32_t* const begin = with_user_stack_.data();
  uint32_t* end = begin;
  for (uint32_t i = 0; i < group().count; i++) {
    if (record(i).user_stack != 0 && record(i).context != 0) *end++ = i;
  }
  std::sort(begin, end, [&](uint32_t a, uint32_t b) {
    const TraceRecord &x = record(a), &y = record(b);
    if (x.user_stack != y.user_stack) return x.user_stack < y.user_stack;
    if (x.context == y.context) return false;
    const int order = compare(program(x), program(y));
    return order != 0 ? order < 0 : x.context < y.context;
  });
  Share share = {};
  uint32_t context = 0;  // of the last record
  for (const uint32_t* i = begin; i < end; i++) {
    const TraceRecord& at = record(*i);
    if (share.count > 0 &&
        (share.user_stack != at.user_stack ||
         (context != at.context && compare(*contexts_->get(context)->program, program(at)) != 0))) {
      add_share(share);
      share = {};
    }
    if (share.count == 0)
      share = {.bytes = 0,
               .count = 0,
               .user_stack = at.user_stack,
               .context = at.context,
               .processes = 0};
    share.processes += share.count == 0 || context != at.context;
    share.bytes += at.size();
    share.count++;
    context = at.context;
  }
  if (share.count > 0) add_share(share);
}

// Of those with most bytes each has its place among the others; what is not shown is counted.
void TraceText::add_share(const Share& share) {
  const auto before = [](const Share& a, const Share& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (a.count != b.count) return a.count > b.count;
    if (a.context != b.context) return a.context < b.context;
    return a.user_stack < b.user_stack;
  };
  uint32_t place = std::min(user_stacks_++, kUserStacksShown);
  for (; place > 0 && before(share, shares_[place - 1]); place--) {
    if (place < kUserStacksShown) shares_[place] = shares_[place - 1];
  }
  if (place < kUserStacksShown) shares_[place] = share;
}

void TraceText::print_user_stack() {
  if (item_ < user_stacks_ && item_ < kUserStacksShown) {
    const Share& share = shares_[item_];
    const ContextTable::Context& context = *contexts_->get(share.context);
    const ContextTable::Program& program = *context.program;
    print("\tuser stack of pid %u %s", unsigned{context.pid}, program.name);
    if (share.processes > 1) print(" and %u more", share.processes - 1);
    print(", %lu bytes in %u allocations", share.bytes, share.count);
    if (program.build_id_size > 0) print(", build id ");
    for (uint8_t i = 0; i < program.build_id_size; i++) print("%02x", program.build_id[i]);
    print("\n");
    part_ = Part::kUserFrames;
    user_frame_ = 0;
    return;
  }
  if (item_ < user_stacks_) print("\t… %u more user stacks\n", user_stacks_ - item_);
  part_ = Part::kObjects;
  item_ = 0;
}

void TraceText::print_user_frame() {
  const Share& share = shares_[item_];
  const StackTable::View stack = stacks_->view(share.user_stack);
  if (user_frame_ < stack.size()) {
    print("\t\t0x%lx [%s]\n", stack[user_frame_++], contexts_->get(share.context)->program->path);
    return;
  }
  part_ = Part::kUserStacks;
  item_++;
}

// Most of a long dump consists of these lines.
char* TraceText::put_object(char* to, const TraceRecord& at) {
  to = put_hex(put_text(to, "\t0x"), at.object());
  to = put_decimal(put_text(to, " size "), at.size());
  to = put_decimal(put_text(to, " age "), copy_.age(at));
  to = put_decimal(put_text(to, " mark "), at.mark());
  to = put_decimal(put_text(to, " cpu "), at.cpu());
  if (at.not_leak()) to = put_text(to, " not_leak");
  *to++ = ' ';
  to = put_text(to, context_text(at.context));
  *to++ = '\n';
  return to;
}

std::string_view TraceText::context_text(uint32_t context) {
  if (context_shown_ != context) {
    const int length =
        format_context(context_text_, sizeof(context_text_), contexts_->get(context));
    context_length_ = std::min(static_cast<size_t>(length), sizeof(context_text_) - 1);
    context_shown_ = context;
  }
  return {context_text_, context_length_};
}

// As many as there is room for.
void TraceText::print_object() {
  const uint32_t shown = std::min(group().count, kObjectsShown);
  if (item_ < shown) {
    char* end = piece_ + length_;
    do end = put_object(end, record(item_++));
    while (item_ < shown && end + kObjectLine <= piece_ + kPiece);
    length_ = static_cast<size_t>(end - piece_);
    return;
  }
  if (item_ < group().count) print("\t… %u more\n", group().count - item_);
  part_ = ++group_ < group_count_ ? Part::kGroup : Part::kEnd;
}
